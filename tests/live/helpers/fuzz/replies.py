"""What a master may answer to somebody without a key."""

from __future__ import annotations

from typing import Any, Final

import salt.exceptions
import salt.payload

TEXTS: Final = (
    "",
    "bad load",
    "bad load: id contains a null byte",
    "payload and load must be a dict",
)
ERRORS: Final = {
    "AuthenticationError",
    "EauthAuthenticationError",
    "SaltInvocationError",
    "TokenAuthenticationError",
    "UserAuthenticationError",
}
SIGN_INS: Final = (True, False, "full", "bad enc algo", "bad sig algo")


def permitted(reply: Any) -> bool:
    """Return whether a reply tells somebody without a key nothing but that there is a master."""
    if reply is None or reply is False or reply == {}:
        return True
    if isinstance(reply, str):
        return reply in TEXTS or (reply.startswith("bad load: id ") and reply.endswith("is not a string"))
    if not isinstance(reply, dict):
        return False
    if reply.get("cmd") == "ping":
        # the load comes back
        return True
    if set(reply) == {"error"}:
        error = reply["error"]
        return error == "Routing error" or (isinstance(error, dict) and error.get("name") in ERRORS)
    return reply == {"msg": "bad load"} or _refused(reply)


def _refused(reply: dict[str, Any]) -> bool:
    """Return whether a reply to a sign-in has no keys in it."""
    load = reply.get("load")
    if reply.get("enc") != "clear" or set(reply) - {"enc", "load", "sig"}:
        return False
    if isinstance(load, bytes | str):
        try:
            load = salt.payload.loads(load if isinstance(load, bytes) else load.encode())
        except salt.exceptions.SaltException:
            return False
    return isinstance(load, dict) and set(load) <= {"ret", "nonce"} and load.get("ret") in SIGN_INS
