"""
The interface of the virtual module ``x509``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface


class X509Interface(Interface):
    """
    Certificates, keys and requests
    """

    __modulename__ = "x509"
    __version__ = "1.0"

    # --- Every module

    def create_certificate(
        self,
        path=None,
        text=False,
        overwrite=True,
        raw=False,
        *,
        ca_server=None,
        signing_policy=None,
        encoding="pem",
        append_certs=None,
        pkcs12_passphrase=None,
        pkcs12_encryption_compat=False,
        pkcs12_friendlyname=None,
        **kwargs,
    ):
        """
        Create an X509 certificate
        """

    # not promised: raw, which x509 does not take
    # not promised: days_valid, which is 100 or None by default
    # not promised: digest, which is '' or 'sha256' by default
    # not promised: encoding, which x509 does not take
    # not promised: extensions, which x509 does not take
    def create_crl(
        self,
        path=None,
        text=False,
        *,
        signing_private_key,
        signing_private_key_passphrase=None,
        signing_cert=None,
        revoked,
        include_expired=False,
    ):
        """
        Create a CRL
        """

    def create_csr(
        self,
        private_key,
        private_key_passphrase=None,
        digest="sha256",
        encoding="pem",
        path=None,
        raw=False,
        text=False,
        **kwargs,
    ):
        """
        Create a certificate signing request
        """

    # not promised: algo, which x509 does not take
    # not promised: keysize, which x509 does not take
    # not promised: raw, which x509 does not take
    # not promised: encoding, which x509 does not take
    # not promised: pkcs12_encryption_compat, which x509 does not take
    def create_private_key(
        self,
        path=None,
        text=False,
        bits=2048,
        cipher="aes_128_cbc",
        verbose=True,
        *,
        passphrase=None,
    ):
        """
        Creates a private key in PEM format
        """

    @Interface.returns(dict)
    def expired(self, certificate):
        """
        Returns a dict containing limited details of a certificate and whether the
        certificate has expired
        """
        return {}

    @Interface.returns(dict)
    def get_pem_entries(self, glob_path):
        """
        Returns a dict containing PEM entries in files matching a glob
        """
        return {}

    def get_pem_entry(self, text, pem_type=None):
        """
        Returns a properly formatted PEM string from the input text fixing any
        whitespace or line-break issues
        """

    def get_private_key_size(self, private_key, passphrase=None):
        """
        Returns the bit length of a private key in PEM format
        """

    # not promised: asObj, which is False or None by default
    def get_public_key(self, key, passphrase=None):
        """
        Returns a string containing the public key in PEM format
        """

    # not promised: signing_policy, which x509 does not take
    # not promised: ca_server, which x509 does not take
    # not promised: signing_policy_name, which x509_v2 does not take
    def get_signing_policy(self, signing_policy_name):
        """
        Returns the details of a names signing policy, including the text of the
        public key that will be used to sign it
        """

    @Interface.returns(dict)
    def read_certificate(self, certificate):
        """
        Returns a dict containing details of a certificate
        """
        return {}

    @Interface.returns(dict)
    def read_certificates(self, glob_path):
        """
        Returns a dict containing details of all certificates matching a glob
        """
        return {}

    def read_crl(self, crl):
        """
        Returns a dict containing details of a certificate revocation list
        """

    @Interface.returns(dict)
    def read_csr(self, csr):
        """
        Returns a dict containing details of a certificate request
        """
        return {}

    def sign_remote_certificate(
        self, signing_policy, kwargs, get_signing_policy_only=False, *, argdic, **more
    ):
        """
        Request a certificate to be remotely signed according to a signing policy
        """

    def verify_crl(self, crl, cert):
        """
        Validate a CRL against a certificate
        """

    def verify_private_key(self, private_key, public_key, passphrase=None):
        """
        Verify that 'private_key' matches 'public_key'
        """

    def verify_signature(
        self, certificate, signing_pub_key=None, signing_pub_key_passphrase=None
    ):
        """
        Verify that ``certificate`` has been signed by ``signing_pub_key``
        """

    @Interface.returns(dict)
    def will_expire(self, certificate, days):
        """
        Returns a dict containing details of a certificate and whether the
        certificate will expire in the specified number of days
        """
        return {}

    @Interface.returns(str)
    def write_pem(self, text, path, overwrite=True, pem_type=None):
        """
        Writes out a PEM string fixing any formatting or whitespace issues before
        writing
        """
        return ""

    # --- Some modules

    @Interface.optional
    def create_certificate_ssh(
        self,
        ca_server=None,
        signing_policy=None,
        encoding="pem",
        append_certs=None,
        pkcs12_passphrase=None,
        pkcs12_encryption_compat=False,
        pkcs12_friendlyname=None,
        path=None,
        overwrite=True,
        raw=False,
        **kwargs,
    ):
        """
        Create an X.509 certificate and return an encoded version of it
        """

    @Interface.optional
    def encode_certificate(
        self,
        certificate,
        encoding="pem",
        append_certs=None,
        private_key=None,
        private_key_passphrase=None,
        pkcs12_passphrase=None,
        pkcs12_encryption_compat=False,
        pkcs12_friendlyname=None,
        raw=False,
    ):
        """
        Create an encoded representation of a certificate, optionally including
        other structures
        """

    @Interface.optional
    def encode_crl(self, crl, encoding="pem", raw=False):
        """
        Create an encoded representation of a certificate revocation list
        """

    @Interface.optional
    def encode_csr(self, csr, encoding="pem", raw=False):
        """
        Create an encoded representation of a certificate signing request
        """

    @Interface.optional
    def encode_private_key(
        self,
        private_key,
        encoding="pem",
        passphrase=None,
        private_key_passphrase=None,
        pkcs12_encryption_compat=False,
        raw=False,
    ):
        """
        Create an encoded representation of a private key
        """

    @Interface.optional
    @Interface.returns(bool)
    def expires(self, certificate, days=0):
        """
        Determine whether a certificate will expire or has expired already
        """
        return False
