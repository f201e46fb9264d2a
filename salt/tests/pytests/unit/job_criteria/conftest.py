from tests.pytests.unit.job_handler.conftest import bench  # pylint: disable=unused-import
