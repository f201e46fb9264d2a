from tests.pytests.functional.job_handler.conftest import (  # pylint: disable=unused-import
    setup,
)
