#!/usr/bin/env python3
"""Looks at report pages in headless Chromium (Debian: chromium): light and dark, on a wide screen and on a phone.

usage: scripts/pages.py [--shots FOLDER] PAGE.html...
       scripts/pages.py [--shots FOLDER] --live COMMAND...

With --live it looks at the page of a volume: COMMAND is a `peryton serve`, whose volume another program writes to meanwhile. Values have to
change, a setting has to be made, and the page has to say so when the server is killed, and go on when it is there again.

It fails if a page logs an error, asks for anything from the network, is wider than its window, has a chart without a drawing, text that
its policy or a hostile name has broken or that is hard to read on its ground, or does not obey the keyboard. It speaks Chromium's protocol over a pipe, so it needs no library.
"""

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_BYTES = 2_000_000
TIMEOUT_S = 60
WIDE, PHONE = (1280, 900), (390, 844)

# Waits for the charts, then says what a reader would object to.
LOOK = """(async () => {
  for (let turn = 0; turn < 200 && !document.documentElement.dataset.ready; turn += 1) await new Promise((go) => setTimeout(go, 25));
  await new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
  const problems = [];
  const figures = [...document.querySelectorAll("figure")];
  if (document.documentElement.dataset.ready !== String(figures.length)) problems.push("the script did not draw all charts");
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) {
    const wide = [...document.querySelectorAll("body *")].filter((one) => one.getBoundingClientRect().right > root.clientWidth + 1 && !one.closest(".scroll, .states"));
    problems.push(`wider than the window: ${root.scrollWidth} > ${root.clientWidth}: ${wide.slice(0, 3).map((one) => one.outerHTML.slice(0, 80))}`);
  }
  for (const figure of figures) {
    const name = figure.querySelector("figcaption").textContent;
    const canvas = figure.querySelector(".plot canvas");
    if (!canvas || !canvas.width || !canvas.height) { problems.push(`${name}: no drawing`); continue; }
    const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    const colours = new Set();
    for (let at = 0; at < pixels.length; at += 4) if (pixels[at + 3] > 200) colours.add((pixels[at] << 16) | (pixels[at + 1] << 8) | pixels[at + 2]);
    if (colours.size < 4) problems.push(`${name}: an empty drawing`);
    for (const item of figure.querySelectorAll(".legend button")) if (!item.textContent.trim()) problems.push(`${name}: a line without a name`);
  }
  for (const text of ["NaN", "undefined", "Infinity"]) if (document.body.innerText.includes(text)) problems.push(`'${text}' is shown`);
  if (document.querySelectorAll(".verdict strong").length !== 1 || document.querySelector(".verdict").innerText.split(". ").length < 2) problems.push("no verdict of two sentences");
  if (window.hostile || document.querySelectorAll("script:not([type])").length > (document.querySelector("main.live") ? 3 : 2) || document.querySelector("img, iframe, object, b.hostile")) problems.push("text became an element");
  const [ink, paper] = ["color", "backgroundColor"].map((name) => getComputedStyle(document.body)[name].match(/[0-9.]+/g).slice(0, 3).map(Number));
  return { problems, figures: figures.map((one) => one.querySelector("figcaption").textContent), dark: paper[0] < ink[0] };
})()"""

# The least contrast of text with its ground, of large text, and of lines (WCAG 2.2, 1.4.3 and 1.4.11).
CONTRAST = """(() => {
  const problems = new Set();
  const parts = (text) => { const found = text.match(/[0-9.]+(e-?[0-9]+)?/g).map(Number); const whole = text.startsWith("color(") ? 255 : 1; return [...found.slice(0, 3).map((one) => one * whole), found[3] ?? 1]; };
  const over = ([r, g, b, a], below) => [r, g, b].map((one, at) => one * a + below[at] * (1 - a));
  const light = (rgb) => { const [r, g, b] = rgb.map((one) => one / 255).map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const contrast = (one, other) => { const [a, b] = [light(one), light(other)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
  const ground = (element) => { const chain = []; for (let one = element; one; one = one.parentElement) chain.unshift(parts(getComputedStyle(one).backgroundColor)); return chain.reduce((below, one) => over(one, below), [255, 255, 255]); };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const element = text.parentElement;
    const style = getComputedStyle(element);
    if (!text.textContent.trim() || !element.checkVisibility({ visibilityProperty: true }) || element.closest("script, style, .spoken, [disabled], [aria-pressed=false]")) continue;
    const below = ground(element);
    const ink = parts(element.closest("svg") ? style.fill : style.color);
    const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.6 && Number(style.fontWeight) >= 700;
    const found = contrast(over(ink, below), below);
    if (found < (large ? 3 : 4.5)) problems.add(`hard to read (${found.toFixed(2)}): '${text.textContent.trim().slice(0, 40)}'`);
  }
  const probe = document.body.appendChild(document.createElement("i"));
  const named = (name) => { probe.style.color = `var(${name})`; return parts(getComputedStyle(probe).color).slice(0, 3); };
  for (const name of ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7", "--edge", "--faint"]) for (const below of ["--paper", "--card"]) {
    const found = contrast(named(name), named(below));
    if (found < 3) problems.add(`lines of ${name} on ${below}: contrast ${found.toFixed(2)}`);
  }
  probe.remove();
  return { problems: [...problems] };
})()"""

# Where the tab key has come to: what it is, and whether one sees that it is there.
FOCUSED = """(() => {
  const one = document.activeElement;
  if (!one || one === document.body || one === document.documentElement) return null;
  window.tabbed ??= new Set();
  const again = window.tabbed.has(one);
  window.tabbed.add(one);
  const shown = one.matches(".segments input") ? one.nextElementSibling : one;
  return { again, shown: getComputedStyle(shown).outlineStyle !== "none", what: one.outerHTML.slice(0, 80), left: [...document.querySelectorAll(REACHED)].filter((other) => other.checkVisibility() && !window.tabbed.has(other)).map((other) => other.outerHTML.slice(0, 80)) };
})()""".replace("REACHED", '"figure .plot[tabindex], .legend button, select, summary, th button, input[type=range], .segments input:checked"')

# Works the page by keys and clicks.
WORK = """(async () => {
  const problems = [];
  const frame = () => new Promise((go) => requestAnimationFrame(() => requestAnimationFrame(go)));
  const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  for (const plot of document.querySelectorAll("figure .plot")) {
    const figure = plot.closest("figure");
    const name = figure.querySelector("figcaption").textContent;
    if (figure.querySelector(".sliders")) continue;
    if (plot.tabIndex !== 0) problems.push(`${name}: not reached by the tab key`);
    press(plot, "ArrowRight");
    const first = figure.querySelector("output").textContent;
    press(plot, "ArrowRight");
    press(plot, "ArrowRight");
    if (!first || first === figure.querySelector("output").textContent && !/ended/.test(first) && JSON.parse(document.getElementById("data").textContent).charts.find((one) => one.id === figure.id).kind === "heat") problems.push(`${name}: arrow keys say nothing: '${first}'`);
    press(plot, "Escape");
  }
  for (const figure of document.querySelectorAll("figure")) {
    const [slider, ranking] = [figure.querySelector("input[type=range]"), figure.querySelector(".ranking")];
    if (slider) {
      const before = ranking.textContent;
      const sliders = [...figure.querySelectorAll("input[type=range]")];
      const orders = new Set();
      for (const alone of [...sliders.slice(1), slider]) {
        for (const one of sliders) { one.value = one === alone ? 10 : 0; one.dispatchEvent(new Event("input", { bubbles: true })); }
        await frame();
        orders.add(ranking.textContent);
      }
      orders.delete(before);
      if (!ranking.textContent || /score (?!1\\.00)/.test(before) && !orders.size) problems.push("weights change nothing");
      if (!/score 1\\.00/.test(ranking.textContent)) problems.push("the best by one weight is not the best: " + ranking.textContent);
    }
    for (const select of figure.querySelectorAll("select")) { select.selectedIndex = select.options.length - 1; select.dispatchEvent(new Event("change", { bubbles: true })); }
    const radio = figure.querySelector("input[type=radio]:not(:checked)");
    if (radio) radio.click();
    const button = figure.querySelector(".legend button");
    if (button) { button.click(); if (button.isConnected && button.getAttribute("aria-pressed") !== "false") problems.push("a line cannot be hidden"); button.click(); }
  }
  for (const table of document.querySelectorAll("table.sortable")) {
    const column = table.tHead.rows[0].cells.length - 1;
    const cells = () => [...table.tBodies[0].rows].map((row) => row.cells[column].dataset.value ?? row.cells[column].textContent);
    const rows = cells().length;
    const button = table.tHead.rows[0].cells[column].querySelector("button");
    button.click();
    const up = cells().filter((text) => text !== "" && text !== "–");
    button.click();
    const down = cells().filter((text) => text !== "" && text !== "–");
    if (cells().length !== rows || up.length > 1 && JSON.stringify(up.map(Number)) !== JSON.stringify(down.map(Number).reverse()) && up.every((text) => !Number.isNaN(Number(text)))) problems.push(`a click does not sort: ${up} / ${down}`);
  }
  await frame();
  return { problems };
})()"""


# Waits until the page of a volume has so many rows.
ROWS = """(async (wanted) => {
  for (let turn = 0; turn < 1200; turn += 1) {
    if (Number(document.documentElement.dataset.rows || 0) >= wanted) return Number(document.documentElement.dataset.rows);
    await new Promise((go) => setTimeout(go, 50));
  }
  return -1;
})"""

# What the page of a volume shows now.
SHOWN = """({
  rows: Number(document.documentElement.dataset.rows || 0),
  verdict: document.querySelector(".verdict").innerText,
  tiles: document.getElementById("tiles").innerText,
  legends: [...document.querySelectorAll("#over-time .legend")].map((one) => one.innerText).join(" "),
  events: document.getElementById("events").innerText,
  settings: document.getElementById("in-force").innerText,
  devices: document.getElementById("devices").innerText,
  lost: !document.getElementById("connection").hidden && document.getElementById("connection").innerText,
})"""

# Works the page of a volume by keys, and keeps what was chosen.
WORK_LIVE = """(async () => {
  const problems = [];
  const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const pause = (ms) => new Promise((go) => setTimeout(go, ms));
  for (const plot of document.querySelectorAll("figure .plot")) {
    const name = plot.closest("figure").querySelector("figcaption").textContent;
    if (plot.tabIndex !== 0) problems.push(`${name}: not reached by the tab key`);
    press(plot, "End");
    press(plot, "ArrowLeft");
    press(plot, "ArrowRight");
    if (!plot.closest("figure").querySelector("output").textContent) problems.push(`${name}: arrow keys say nothing`);
  }
  const choose = document.querySelector("#over-time select");
  choose.selectedIndex = 1;
  choose.dispatchEvent(new Event("change", { bubbles: true }));
  const layer = document.querySelectorAll("#map input[type=radio]")[2];
  layer.click();
  layer.focus();
  const button = document.querySelector("#over-time .legend button");
  button.click();
  await pause(2500);
  if (choose.selectedIndex !== 1) problems.push("the choice is not kept");
  if (!document.querySelectorAll("#map input[type=radio]")[2].checked || document.activeElement !== layer) problems.push("the layer or the focus is not kept");
  if (document.querySelector("#over-time .legend button").getAttribute("aria-pressed") !== "false") problems.push("a hidden line comes back");
  button.click();
  return { problems };
})"""


class Browser:
    def __init__(self, program, profile):
        down_read, down_write = os.pipe()
        up_read, up_write = os.pipe()

        def pipes():
            # The descriptors that --remote-debugging-pipe reads and writes. They are moved out of each other's way first.
            first, second = os.dup(down_read), os.dup(up_write)
            high = [os.dup(first), os.dup(second)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        words = [program, "--headless", "--remote-debugging-pipe", f"--user-data-dir={profile}", "--disable-gpu",
                 "--no-first-run", "--disable-background-networking", "--disable-component-update", "about:blank"]
        words += ["--no-sandbox"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(words, preexec_fn=pipes, close_fds=False, stderr=subprocess.DEVNULL)
        os.close(down_read)
        os.close(up_write)
        self.out, self.into = os.fdopen(down_write, "wb", 0), os.fdopen(up_read, "rb")
        self.numbers, self.events, self.session = itertools.count(1), [], None

    def read(self):
        message = bytearray()
        while (letter := self.into.read(1)) != b"\0":
            if not letter:
                sys.exit("pages: the browser ended")
            message += letter
        return json.loads(message)

    def ask(self, method, **params):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        self.out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == number:
                if "error" in answer:
                    sys.exit(f"pages: {method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open_tab(self):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.ask(f"{domain}.enable")

    def evaluate(self, script):
        result = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            return {"problems": [json.dumps(result["exceptionDetails"])[:500]]}
        return result["result"].get("value")

    def load(self, url):
        self.events.clear()
        self.ask("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.read())

    def complaints(self, url, own=None):
        """Errors that were logged, and requests besides the page itself and what begins with `own`."""
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                yield "exception: " + json.dumps(params["exceptionDetails"])[:600]
            elif own and "status of 503" in params.get("entry", {}).get("text", ""):
                # The server answers so until the volume is open; the page asks again.
                continue
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                yield f"log: {params['entry']['text']}"
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                yield "console: " + json.dumps(params["args"])[:300]
            elif method == "Network.requestWillBeSent" and params["request"]["url"].split("#")[0] != url and not (own and params["request"]["url"].startswith(own)):
                yield f"asks the network: {params['request']['url'][:200]}"


MOST_TABS = 2000


def by_tab(browser):
    """Goes through the page by the tab key; yields what is not reached, and where one does not see the place."""
    browser.evaluate("document.activeElement.blur(), window.scrollTo(0, 0), null")
    left = None
    for _ in range(MOST_TABS):
        for kind in ("rawKeyDown", "keyUp"):
            browser.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        found = browser.evaluate(FOCUSED)
        if not found or found["again"]:
            break
        left = found["left"]
        if not found["shown"]:
            yield f"the focus is not seen: {found['what']}"
    if left is None:
        # Only a page with nothing to work has nothing for the keyboard.
        if browser.evaluate("document.querySelectorAll('figure .plot[tabindex], summary, th button').length"):
            yield "the tab key reaches nothing"
    elif left:
        yield f"not reached by the tab key: {left[:3]}"


def shoot(browser, shots, name, width):
    if shots:
        whole = browser.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": width, "height": min(whole["height"], 12_000), "scale": 1}
        image = browser.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]
        (shots / f"{name}.png").write_bytes(base64.b64decode(image))


def serve(command, address):
    """Starts a server; returns it and where its page is."""
    server = subprocess.Popen([*command, "--json", "--http", address], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = server.stdout.readline()
    if not line:
        sys.exit("pages: the server does not start")
    return server, json.loads(line)["http"]


def look_live(browser, command, shots):
    problems = []
    server, url = serve(command, "127.0.0.1:0")
    address = url.split("/")[2]
    try:
        for scheme, (name, (width, height)) in itertools.product(["light", "dark"], [("wide", WIDE), ("phone", PHONE)]):
            where = f"{scheme}, {name}"
            browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
            browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1 if name == "wide" else 2, mobile=name == "phone")
            browser.load(url)
            if browser.evaluate(f"{ROWS}(4)") < 4:
                problems.append(f"{where}: no figures come")
            seen = browser.evaluate(LOOK)
            problems += [f"{where}: {text}" for text in seen["problems"]]
            if seen.get("dark") is not (scheme == "dark"):
                problems.append(f"{where}: the colours are those of the other scheme")
            shoot(browser, shots, f"live-{scheme}-{name}", width)
            problems += [f"{where}: {text}" for text in browser.evaluate(CONTRAST)["problems"]]
            if scheme == "light":
                problems += [f"{where}: {text}" for text in by_tab(browser)]
            problems += [f"{where}: {text}" for text in browser.complaints(url, url)]
        first = browser.evaluate(SHOWN)
        browser.evaluate(f"{ROWS}({first['rows'] + 3})")
        second = browser.evaluate(SHOWN)
        for what in ["tiles", "legends", "devices"]:
            if first[what] == second[what]:
                problems.append(f"{what} do not change: {first[what]}")
        if "connected" not in second["events"] or "opened" not in second["events"]:
            problems.append(f"events are not shown: {second['events']}")
        problems += browser.evaluate(f"{WORK_LIVE}()")["problems"]
        problems += browser.complaints(url, url)
        program, _, design, *_ = command
        subprocess.run([program, "set", design, "placement.max_moves=5"], check=True, stdout=subprocess.DEVNULL)
        figures = seen.get("figures", [])
        server.kill()
        server.wait(TIMEOUT_S)
        for _ in range(100):
            lost = browser.evaluate(SHOWN)["lost"]
            if lost:
                break
            time.sleep(0.1)
        if not lost or "has not answered since" not in lost:
            problems.append(f"the page does not say that the server is gone: {lost}")
        shoot(browser, shots, "live-lost", PHONE[0])
        server, _ = serve(command, address)
        for _ in range(300):
            third = browser.evaluate(SHOWN)
            if not third["lost"] and third["rows"] > 2:
                break
            time.sleep(0.1)
        else:
            problems.append(f"the page does not go on with the next server: {third}")
        if "placement.max_moves=5" not in third["settings"]:
            problems.append(f"the setting is not durable: {third['settings']}")
        shoot(browser, shots, "live-again", PHONE[0])
    finally:
        server.kill()
        server.wait(TIMEOUT_S)
    return figures, problems


def look(browser, page, shots):
    problems, figures = [], []
    size = page.stat().st_size
    if size > MOST_BYTES:
        problems.append(f"{size:,} bytes, more than {MOST_BYTES:,}")
    url = page.as_uri()
    for scheme, (name, (width, height)) in itertools.product(["light", "dark"], [("wide", WIDE), ("phone", PHONE)]):
        where = f"{scheme}, {name}"
        browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1 if name == "wide" else 2, mobile=name == "phone")
        browser.load(url)
        seen = browser.evaluate(LOOK)
        problems += [f"{where}: {text}" for text in seen["problems"]]
        figures = seen.get("figures", [])
        if seen.get("dark") is not (scheme == "dark"):
            problems.append(f"{where}: the colours are those of the other scheme")
        shoot(browser, shots, f"{page.stem}-{scheme}-{name}", width)
        problems += [f"{where}: {text}" for text in browser.evaluate(CONTRAST)["problems"]]
        if scheme == "light":
            problems += [f"{where}: {text}" for text in by_tab(browser)]
        problems += [f"{where}: {text}" for text in browser.evaluate(WORK)["problems"]]
        problems += [f"{where}: {text}" for text in browser.complaints(url)]
    return size, figures, problems


def main():
    words = sys.argv[1:]
    shots = None
    if words[:1] == ["--shots"]:
        shots, words = Path(words[1]), words[2:]
        shots.mkdir(parents=True, exist_ok=True)
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if not program:
        sys.exit("pages: chromium is missing")
    failed = False
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            browser.open_tab()
            if words[:1] == ["--live"]:
                figures, problems = look_live(browser, words[1:], shots)
                print(f"live: {len(figures)} charts: {', '.join(figures)}")
                for problem in dict.fromkeys(problems):
                    print(f"live: {problem}")
                failed, words = bool(problems), []
            for page in map(Path, words):
                size, figures, problems = look(browser, page.resolve(), shots)
                print(f"{page.name}: {size:,} bytes, {len(figures)} charts: {', '.join(figures)}")
                for problem in dict.fromkeys(problems):
                    print(f"{page.name}: {problem}")
                failed |= bool(problems)
        finally:
            browser.process.kill()
            browser.process.wait(TIMEOUT_S)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
