"""The fake's own key: it signs launches as Prolific does, and shows the public half as Prolific does."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from urllib.parse import urlsplit

from stillme.study.rehearsal.fake.world import Found, World

ISSUER = "https://www.prolific.com"
LASTS = 3600  # seconds


def make_key() -> str:
    """A private key as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    made = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    plain = serialization.NoEncryption()
    return made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain).decode()


def name(pem: str) -> str:
    return hashlib.sha256(pem.encode()).hexdigest()[:16]


def public(pem: str) -> dict[str, Any]:
    """The public half as a JWK."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from jwt.algorithms import RSAAlgorithm

    key = serialization.load_pem_private_key(pem.encode(), None)
    assert isinstance(key, RSAPrivateKey)
    made: dict[str, Any] = json.loads(RSAAlgorithm.to_jwk(key.public_key()))
    return {"kty": "RSA", "n": made["n"], "e": made["e"], "use": "sig", "alg": "RS256", "kid": name(pem)}


def token(world: World, found: Found, **changed: Any) -> str:
    """The signed launch of a submission. `changed`: claims that are other than they should be, for tests."""
    import jwt

    now = world.clock()
    claims = {
        "iss": ISSUER,
        "aud": urlsplit(found["url"]).netloc,
        "sub": found["id"],
        "iat": int(now),
        "exp": int(now) + LASTS,
        "prolific": {
            "PROLIFIC_PID": found["participant"],
            "STUDY_ID": found["study_id"],
            "SESSION_ID": found["id"],
            "workspace_id": world.workspace,
            "organisation_id": "",
        },
        **changed,
    }
    return jwt.encode(claims, world.key, algorithm="RS256", headers={"kid": name(world.key)})


def launch_url(world: World, found: Found) -> str:
    """The study's address as this person opens it."""
    url: str = found["url"]
    filled = {"PROLIFIC_PID": "participant", "STUDY_ID": "study_id", "SESSION_ID": "id"}
    for placeholder, field in filled.items():
        url = url.replace(f"{{{{%{placeholder}%}}}}", found[field])
    if world.study(found["study_id"]).get("is_external_study_url_secure"):
        url += f"{'&' if '?' in url else '?'}prolific_token={token(world, found)}"
    return url
