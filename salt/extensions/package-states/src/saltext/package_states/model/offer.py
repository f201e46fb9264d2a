"""What one repository has: the packages and their versions, under a digest.

Minions of the same repositories have the same digests, so that a master asks one of them
for what is behind a digest, and keeps it once.
"""

import hashlib
import json

import saltext.package_states.model.version as versions


def digest(platform, name, packages):
    """Return the digest of what a repository has"""
    text = json.dumps([platform, name, packages], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def ordered(platform, packages):
    """Return packages with lists of their versions, the newest first"""
    return {
        key: versions.sort(platform, set(there))[::-1]
        for key, there in packages.items()
    }
