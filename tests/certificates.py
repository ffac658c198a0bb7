"""An authority and a certificate for this machine, made with `openssl` for one test."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


def make_certificates(folder: Path) -> ssl.SSLContext:
    """Make an authority (ca.pem) and let it sign a certificate for this machine."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    _openssl(folder, "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca")
    _openssl(folder, "req", *key, "-keyout", "key.pem", "-out", "csr", "-subj", "/CN=server")
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-extfile", "ext")
    _openssl(folder, "x509", "-req", "-in", "csr", *signing, "-out", "server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "key.pem")
    return context


def _openssl(folder: Path, *args: str) -> None:
    subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)
