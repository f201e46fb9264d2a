from tests.pytests.unit.job_handler.conftest import (  # pylint: disable=unused-import
    bench,
)
