"""What tests with forged files share."""

import resource
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

FUZZ = settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
MOST_BYTES = 1 << 29  # that reading a small file may take


@pytest.fixture(scope="module", autouse=True)
def little_memory():
    """Stop a reader that makes an array of the size that a forged file asks for."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MOST_BYTES, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
