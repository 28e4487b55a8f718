#!/usr/bin/python3
"""widths.py SITE: no page of the HTML site is wider than a phone (390 pixels) or a small screen (1280): what is wide is scrolled by itself.

One headless Chromium shows each page in a frame of that width, from a server on loopback, and says what stands out on the right.
Exit code 77: there is no Chromium, or no site.
"""
import functools
import http.server
import json
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

WIDTHS = [390, 1280]
ALL = """<!DOCTYPE html><title>measuring</title><body><script>
function isScrolled(element) {
    for (let above = element.parentElement; above && above.tagName !== 'BODY'; above = above.parentElement)
        if (above.ownerDocument.defaultView.getComputedStyle(above).overflowX !== 'visible') return true;
    return false;
}
function widest(page) {
    const wide = [...page.querySelectorAll('body *')].filter(
        element => element.getBoundingClientRect().right > page.documentElement.clientWidth + 1 && !isScrolled(element));
    return wide.slice(0, 1).map(element => element.tagName + ' ' + element.textContent.trim().slice(0, 60));
}
async function measure() {
    const found = [];
    for (const width of WIDTHS) for (const path of PAGES) {
        const frame = document.createElement('iframe');
        frame.style.width = width + 'px';
        const loaded = new Promise(done => frame.onload = done);
        frame.src = '/' + path;
        document.body.append(frame);
        await loaded;
        const page = frame.contentDocument;
        found.push([path, width, page.documentElement.scrollWidth <= page.documentElement.clientWidth, widest(page)]);
        frame.remove();
    }
    await fetch('/found', {method: 'POST', body: JSON.stringify(found)});
}
measure();
</script>"""


class Server(http.server.SimpleHTTPRequestHandler):
    page = b""
    found = queue.Queue()

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path != "/all-widths":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(self.page)

    def do_POST(self):
        self.found.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()


def main():
    site, chromium = pathlib.Path(sys.argv[1]).resolve(), shutil.which("chromium")
    if not chromium or not (site / "index.html").exists():
        print("no page is looked at:", "scripts/site has made none" if chromium else "chromium is not installed")
        return 77
    pages = sorted(str(path.relative_to(site)) for path in site.rglob("*.html") if path.name != "404.html")
    Server.page = ALL.replace("WIDTHS)", json.dumps(WIDTHS) + ")").replace("PAGES)", json.dumps(pages) + ")").encode()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        browser = subprocess.Popen([chromium, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}", "--remote-debugging-port=0",
                                    f"http://127.0.0.1:{server.server_port}/all-widths"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            found = Server.found.get(timeout=150)
        except queue.Empty:
            sys.exit("chromium showed no result")
        finally:
            browser.terminate()
            browser.wait()
    wrong = [f"{path} is wider than {width} pixels: {', '.join(wide)}" for path, width, fits, wide in found if not fits or wide]
    print(*wrong, f"{len(found)} looks at {len(pages)} pages", sep="\n")
    return bool(wrong) or len(found) != len(pages) * len(WIDTHS)


if __name__ == "__main__":
    sys.exit(main())
