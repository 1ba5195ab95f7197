"""Pages of the interactive map: what is in them, and visits to them in a real browser."""

import base64
import json
from html.parser import HTMLParser

import numpy as np
import pandas as pd
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import LearnedKernelMetric, MetricSearchCV
from outmetric.columns import table_encoder
from outmetric.maps import interactive_map

ATTACKS = [
    "</script><script>window.ran = true</script>",
    '<img src=x onerror="window.ran = true">\'`${window.ran = true}',
    "<!-- <script> \u2028\u2029 \x00 &lt;b&gt; <b>bold</b> <a href='javascript:window.ran = true'>link</a>",
    '"}]; window.ran = true; //' + "long " * 1000,
]


class Elements(HTMLParser):
    """The elements of a page: [tag, attributes, text]."""

    def __init__(self, html):
        super().__init__()
        self.found = [["page", {}, ""]]
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        self.found.append([f"/{tag}", {}, ""])

    def handle_data(self, data):
        self.found[-1][2] += data


def scripts(page):
    return [element for element in Elements(page.html).found if element[0] == "script"]


def content(page):
    (data,) = [text for _, attributes, text in scripts(page) if attributes.get("id") == "data"]
    return json.loads(data)


def unpacked(packed):
    return np.frombuffer(base64.b64decode(packed["bytes"]), dtype="<" + packed["type"])


def cells(column):
    """The cells of a column, None for gaps."""
    values = unpacked(column["values"])
    if column["kind"] == "text":
        return [None if code == len(column["texts"]) else column["texts"][code] for code in values]
    return [None if np.isnan(value) else value for value in values]


class Visit:
    """A page in the browser, with what a reader sees and does."""

    def __init__(self, driver, path, folder):
        self.driver, self.path, self.folder = driver, path, folder
        self.find, self.find_all = driver.find_element, driver.find_elements

    def open(self, html):
        self.path.write_text(html, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")
        self.driver.get(self.path.as_uri())

    def show(self, *args, **settings):
        self.open(interactive_map(*args, **settings).html)
        self.until(lambda: self.run("return !!plot._fullLayout && !!document.querySelector('#plot canvas')"))
        return self

    def run(self, code, *args):
        return self.driver.execute_script("const plot = document.getElementById('plot');" + code, *args)

    def until(self, condition):
        return WebDriverWait(self.driver, 20, poll_frequency=0.05).until(lambda _: condition())

    def look_for(self, text):
        box = self.find(By.ID, "wanted")
        box.clear()
        box.send_keys(text, Keys.ENTER)

    def colour_by(self, name):
        Select(self.find(By.ID, "colour")).select_by_visible_text(name)

    def point_at(self, x, y):
        """Move to a place of the plot in pixels from its upper left corner."""
        plot = self.find(By.ID, "plot")
        width, height = plot.size["width"], plot.size["height"]
        return ActionChains(self.driver).move_to_element_with_offset(plot, round(x - width / 2), round(y - height / 2))

    def point_at_coordinates(self, x, y):
        pixels = "const {xaxis, yaxis} = plot._fullLayout;"
        pixels += "return [xaxis._offset + xaxis.d2p(arguments[0]), yaxis._offset + yaxis.d2p(arguments[1])];"
        return self.point_at(*self.run(pixels, x, y))

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector)

    @property
    def row(self):
        return "".join(self.texts("#row h2")).removeprefix("Row ")

    @property
    def entries(self):
        return self.find_all(By.CSS_SELECTOR, "#row ol button")

    @property
    def neighbours(self):
        """What the list says: (id, label, distance)."""
        found = self.texts("#row ol button span")
        return [(name, label, float(distance)) for name, label, distance in zip(*[iter(found)] * 3, strict=True)]

    @property
    def legend(self):
        """Its heading, the ends of the colour bar, and name and count of each class."""
        return self.texts("#legend h2, #legend .ends span, #legend .name, #legend .count")

    @property
    def traces(self):
        """What is drawn: the coordinates of each trace, and whether it is shown."""
        code = "return plot.data.map((one) => [[...one.x], [...one.y], one.visible ?? true, one.marker?.color])"
        return [(np.array([x, y]).T, visible, colour) for x, y, visible, colour in self.run(code)]

    @property
    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


def explained(points):
    """A table, classes that its first columns decide, and a model of both."""
    table = pd.DataFrame(points[:, :3], columns=["first", "second", "<b>third</b>"])
    table["colour"] = np.where(points[:, 3] > 0, "red", "blue")
    classes = np.where(points[:, 0] > 0, np.where(points[:, 3] > 0, "a", "b"), "c")
    model = MetricSearchCV(make_pipeline(table_encoder(table), StandardScaler(), LearnedKernelMetric()), {}, n_neighbors=3, cv=2)
    return table, classes, model.fit(table, classes)


def class_opinions(points):
    """Labels of 40 rows, of which one has none, probabilities, which name another class in row 2 and none in row 5, and classes."""
    classes = ["x", "y", "<b>z</b>"]
    codes = np.arange(40) % 3
    shares = np.full((40, 3), 0.1)
    shares[np.arange(40), codes] = 0.8
    shares[2] = 0.7, 0.3, 0.0
    shares[5] = np.nan
    labels = [None, *(classes[code] for code in codes[1:])]
    return labels, shares, classes


def accessible_name(element):
    """What a screen reader calls it; some versions of Chromium keep the blank between a box and its label."""
    return element.accessible_name.strip()


def open_details(visit, name):
    visit.find(By.CSS_SELECTOR, f"#{name} summary").send_keys(Keys.ENTER)


def prepared_model(points, kernel, kind=LearnedKernelMetric, **settings):
    """A pipeline of a scaler and a metric, its table and classes."""
    table = pd.DataFrame(3 * points + [100, 0, -5, 1], columns=["first", "second", "<i>third</i>", "fourth"])
    classes = np.where(points[:, 0] > 0, np.where(points[:, 3] > 0, "a", "b"), "c")
    return make_pipeline(StandardScaler(), kind(kernel=kernel, **settings)).fit(table, classes), table, classes


def drop_rows(visit, text, name="new.csv"):
    """Give a file to the page as one that chooses it by keyboard does."""
    path = visit.folder / name
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    visit.find(By.ID, "file").send_keys(str(path))
    visit.until(lambda: visit.texts("#placed") not in ([""], ["Reading …"]) and not visit.texts("#placed")[0].startswith("Placing"))
    return visit.texts("#placed")[0]
