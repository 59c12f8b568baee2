"""A headless Chromium for the tests of the console."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

WIDTH: Final = 1280
HEIGHT: Final = 800
CHROMIUM: Final = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER: Final = shutil.which("chromedriver")
MISSING: Final = "Chromium and its driver are missing: apt-get install chromium chromium-driver"


@contextmanager
def chromium(profile: Path, *, is_dark: bool = False) -> Iterator[Chrome]:
    """Run a browser with a profile of its own."""
    assert CHROMIUM is not None, MISSING
    assert DRIVER is not None, MISSING
    options = ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--hide-scrollbars",
        "--force-prefers-reduced-motion",
        f"--window-size={WIDTH},{HEIGHT}",
        f"--user-data-dir={profile}",
        *(["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if is_dark else []),
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    try:
        driver.set_page_load_timeout(120)
        yield driver
    finally:
        driver.quit()


def texts(driver: Chrome, selector: str) -> list[str]:
    """Return the texts of all elements that match."""
    return [each.text for each in elements(driver, selector)]


def elements(driver: Chrome, selector: str) -> list[WebElement]:
    """Return all elements that match."""
    return driver.find_elements(By.CSS_SELECTOR, selector)
