"""Web pages: embedded where that is possible, or in the browser. QtWebEngine is optional: imported when wanted."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from PyQt6.QtCore import PYQT_VERSION_STR, QCoreApplication, Qt, QUrl
from PyQt6.QtGui import QDesktopServices
from PyQt6.QtNetwork import QNetworkProxy

from gym_gui.ui.clipboard import copy_text
from gym_gui.ui.widgets.snackbar import Notice

INSTALL = f"pip install PyQt6-WebEngine=={PYQT_VERSION_STR}"


def allow_web_views() -> None:
    """To be called before there is an application: QtWebEngine refuses one that was made without shared contexts."""
    QCoreApplication.setAttribute(Qt.ApplicationAttribute.AA_ShareOpenGLContexts)


def make_web_view() -> Any:
    """A ``QWebEngineView``, or None where pages have to be shown elsewhere; see :func:`why_not`."""
    if why_not():
        return None
    from PyQt6.QtWebEngineWidgets import QWebEngineView

    return QWebEngineView()


def use_proxy(address: str) -> bool:
    """Have embedded pages go through a proxy, ``http://user:password@host:port`` or ``socks5://…``; False for an
    address that is none. WebEngine takes the application's proxy and leaves this machine's own pages out of it."""
    url = QUrl(address)
    kinds = {"http": QNetworkProxy.ProxyType.HttpProxy, "socks5": QNetworkProxy.ProxyType.Socks5Proxy}
    if not url.isValid() or url.scheme() not in kinds or not url.host():
        return False
    proxy = QNetworkProxy(kinds[url.scheme()], url.host(), url.port(8080), url.userName(), url.password())
    QNetworkProxy.setApplicationProxy(proxy)
    return True


def open_in_browser(address: str, notify: Callable[[Notice], None]) -> None:
    """Open a page in the web browser; where there is none, say so with the address, to be opened elsewhere."""
    if QDesktopServices.openUrl(QUrl(address)):
        return
    sentence = f"No web browser could be opened. Open this address in one yourself: {address}"
    notify(Notice(sentence, "warning", "Copy the address", lambda: copy_text(address)))


def why_not() -> str:
    """Why no page can be embedded, with the way out; "" where one can."""
    if os.geteuid() == 0 and not os.environ.get("QTWEBENGINE_DISABLE_SANDBOX"):
        # Chromium ends the whole process rather than work without its sandbox, which root cannot have.
        return "Pages are not embedded for root."
    try:
        import PyQt6.QtWebEngineWidgets  # noqa: F401
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError):
            return f"To see it here, install WebEngine: {INSTALL}"
        return f"WebEngine is installed but cannot be used: {error}"
    return ""
