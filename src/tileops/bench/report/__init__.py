"""Results as one page of HTML that needs nothing else: no network, no other file.

`figures` works out what is shown, `plots` draws, `page` sets it; style and behaviour lie beside
them as `page.css` and `page.js`.
"""

from tileops.bench.report.page import html_page

__all__ = ["html_page"]
