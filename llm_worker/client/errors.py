"""What can go wrong with a call.

::

    CallError
    ├── KeyRefusedError        401, 403: never tried again
    ├── RequestRefusedError    another 4xx: the request itself is wrong
    │   └── TooLongError       the prompt does not fit the model's context
    ├── UnreachableError       down, slow, 429 or 5xx, after the last attempt
    ├── BadReplyError          an answer that is none: not JSON, cut off, too large
    ├── BudgetError            the run's own limit
    └── AbandonedError         the run stops while a call is under way
"""

from __future__ import annotations


class CallError(Exception):
    """One sentence that says what happened, why, and what to do."""


class KeyRefusedError(CallError):
    pass


class RequestRefusedError(CallError):
    pass


class TooLongError(RequestRefusedError):
    pass


class UnreachableError(CallError):
    pass


class BadReplyError(CallError):
    pass


class BudgetError(CallError):
    pass


class AbandonedError(CallError):
    pass
