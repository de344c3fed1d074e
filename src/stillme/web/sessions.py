"""Who is asking: a link with a key opens the door once, a signed cookie keeps it open.

Everything follows from one secret, so that links and sessions outlive a restart. There are no passwords.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterable
from pathlib import Path

from itsdangerous import BadSignature, URLSafeTimedSerializer

from stillme.core.errors import disk

SECRET = "secret"  # noqa: S105 (a name, not a password)
LONGEST = 30 * 24 * 3600  # seconds: then the link is needed again


def secret(folder: Path) -> bytes:
    """The secret of a tool's folder, made when first asked for; only its owner may read the file."""
    path = folder / SECRET
    with disk(path):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            path.chmod(0o600)
        else:
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_hex(32).encode())
                file.flush()
                os.fsync(file.fileno())
        found = path.read_bytes()
    if len(found) < 32:  # a process was killed between making and filling it
        path.unlink()
        return secret(folder)
    return found


class Sessions:
    """The people who may enter, by name."""

    def __init__(self, secret: bytes, names: Iterable[str]) -> None:
        self._secret = secret
        self.names = tuple(names)
        self._signer = URLSafeTimedSerializer(secret, salt="session")
        # Cookies are shared between ports of a host: two tools must not overwrite each other's.
        self.cookie_name = f"stillme-{self._digest('cookie', '')[:8]}"

    def _digest(self, purpose: str, of: str) -> str:
        raw = hmac.new(self._secret, f"{purpose}\0{of}".encode(), hashlib.sha256).digest()
        return urlsafe_b64encode(raw[:24]).decode()

    def key(self, name: str) -> str:
        """What the link of this person carries."""
        return self._digest("key", name)

    def holder(self, key: str) -> str | None:
        """Whose key this is. Every name is compared, in constant time."""
        found = [name for name in self.names if hmac.compare_digest(self.key(name).encode(), key.encode())]
        return found[0] if found else None

    def cookie(self, name: str) -> str:
        return self._signer.dumps(name)

    def read(self, cookie: str) -> str | None:
        """The name in a cookie, if the cookie is ours and recent, and the person may still enter."""
        try:
            name = self._signer.loads(cookie, max_age=LONGEST)
        except BadSignature:
            return None
        return name if name in self.names else None

    def token(self, name: str) -> str:
        """What a form has to carry to be taken for ours."""
        return self._digest("form", name)

    def is_token(self, name: str, token: str) -> bool:
        return hmac.compare_digest(self.token(name).encode(), token.encode())
