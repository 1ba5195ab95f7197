"""What several test modules need of pytest."""

import os

# Before anything loads BLAS: tests run side by side on all cores already. Threads of one test would wait for those of another.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import gc
import shutil
import signal
import sys

import pytest
from hypothesis import settings
from selenium import webdriver
from web_pages import Visit

from outmetric.automatic import screening

# What is imported and collected stays: the garbage collector need not look at it again and again meanwhile.
gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()


FEW = {"SCALINGS": ("standard",), "KERNELS": ("rbf",), "FORESTS": (), "WEIGHED": 0, "TRACKS": 0, "READ_BY_NEIGHBOURS": 1}

# A run that decides tries the same examples each time, as newer versions of Hypothesis do by themselves.
settings.register_profile("repeatable", derandomize=True, deadline=None)
if os.environ.get("CI"):
    settings.load_profile("repeatable")


# A shell ignores Ctrl-C for what it starts in the background, and so would the processes that tests start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def one_preparation():
    """`MetricClassifier` and `MetricRegressor` try one kernel and one scaling only: fast, and the same on machines of any speed."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in FEW.items():
            patch.setattr(screening, name, value)
        yield


@pytest.fixture(autouse=True)
def no_figures_are_left():
    """Whatever the order of tests: many open figures are a warning, and warnings are errors."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def driver():
    browser, service = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if browser is None or service is None:
        pytest.skip("needs chromium (or google-chrome) and chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def page_path(tmp_path_factory):
    """One place for all pages: the browser keeps what it compiled of plotly for scripts of the same text and the same address."""
    return tmp_path_factory.mktemp("pages") / "map.html"


@pytest.fixture
def visit(driver, page_path, tmp_path):
    driver.set_window_size(1200, 800)
    driver.get("about:blank")
    driver.get_log("browser")
    visit = Visit(driver, page_path, tmp_path)
    yield visit
    assert visit.errors == []
