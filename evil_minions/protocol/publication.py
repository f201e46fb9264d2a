"""The frame of a publication: its signature and key, and the load of the job in it.

Source: salt/crypt.py and salt/channel/client.py of Salt 3008.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import salt.crypt
import salt.exceptions
import salt.payload

from evil_minions.errors import CryptoError, ForgeryError

if TYPE_CHECKING:
    from evil_minions.protocol.envelope import Load
    from evil_minions.protocol.keys import MasterKey

_PAD: Final = salt.crypt.Crypticle.PICKLE_PAD
_NEEDED: Final = ("tgt", "jid", "fun", "arg")


def decrypt(frame: bytes, aes: str, master: MasterKey) -> Load:
    """Return the load of a publication.

    Raises:
        CryptoError: if the HMAC is wrong, as after the master has changed its key.
        ForgeryError: if the master's signature is wrong, or the frame holds something else.

    """
    try:
        payload = salt.payload.loads(frame)
        if payload["enc"] != "aes":
            raise ForgeryError("The publication isn't encrypted.")
        signature = payload.get("sig")
        if signature and (
            master.public is None or not master.public.verify(payload["load"], signature, payload["sig_algo"])
        ):
            raise ForgeryError("The publication isn't signed by the master.")
        plain = salt.crypt.Crypticle(None, aes).decrypt(payload["load"])
        if not plain.startswith(_PAD):
            raise ForgeryError("The publication holds something else than a job.")
        load = salt.payload.loads(plain[len(_PAD) :])
    except salt.exceptions.AuthenticationError as error:
        raise CryptoError("The publication doesn't authenticate.") from error
    except (salt.exceptions.SaltException, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ForgeryError("The publication makes no sense.") from error
    if not isinstance(load, dict):
        raise ForgeryError("The publication holds something else than a job.")
    return load


def is_job(load: Load) -> bool:
    """Return whether a load has the keys of a job, with the types that they must have."""
    fun = load.get("fun")
    names = fun if isinstance(fun, list) else [fun]
    return (
        all(name in load for name in _NEEDED)
        and bool(names)
        and all(isinstance(name, str) for name in names)
        and isinstance(load["jid"], str)
        and isinstance(load["arg"], list)
    )
