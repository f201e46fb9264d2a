"""
The interface of the virtual module ``file``
"""

from __future__ import annotations

from salt.interfaces import Feature, Interface


class FileInterface(Interface):
    """
    Files and directories. Permissions beyond the mode are the platform's own: access
    control lists on Windows, owner and mode elsewhere.
    """

    __modulename__ = "file"
    __deprecated__ = {"list_backup": "list_backups", "remove_backup": "delete_backup"}

    def access(self, path, mode) -> bool:
        """Test whether the Salt process has the specified access to the file"""

    def append(self, path, *args, **kwargs) -> str:
        """Append lines to a file."""

    def blockreplace(
        self,
        path,
        marker_start="#-- start managed zone --",
        marker_end="#-- end managed zone --",
        content="",
        append_if_not_found=False,
        prepend_if_not_found=False,
        backup=".bak",
        dry_run=False,
        show_changes=True,
        append_newline=False,
        insert_before_match=None,
        insert_after_match=None,
    ) -> bool | str:
        """Replace content of a text block in a file, delimited by line markers"""

    def check_hash(self, path, file_hash) -> bool:
        """Check if a file matches the given hash string"""

    def comment_line(
        self, path, regex, char="#", cmnt=True, backup=".bak"
    ) -> bool | str:
        """Comment or Uncomment a line in a text file"""

    def copy(self, src, dst, recurse=False, remove_existing=False) -> bool:
        """Copy a file or directory from source to dst"""

    def directory_exists(self, path) -> bool:
        """Tests to see if path is a valid directory"""

    def file_exists(self, path) -> bool:
        """Tests to see if path is a valid file"""

    def find(self, path, *args, **kwargs) -> list | str:
        """Return the paths that meet criteria, as find(1) does."""

    def get_group(self, path, follow_symlinks=True) -> str:
        """Return the group that owns a given file"""

    def get_hash(self, path, form="sha256", chunk_size=65536) -> str:
        """Get the hash sum of a file"""

    def get_mode(self, path) -> str | None:
        """Return the mode of a file"""

    def get_user(self, path, follow_symlinks=True) -> str:
        """Return the user that owns a given file"""

    def gid_to_group(self, gid) -> str:
        """Convert the group id to the group name on this system"""

    def group_to_gid(self, group) -> int | str:
        """Return the id of a group, an empty string if it does not exist."""

    def is_link(self, path) -> bool:
        """Check if the path is a symbolic link"""

    def line(
        self,
        path,
        content=None,
        match=None,
        mode=None,
        location=None,
        before=None,
        after=None,
        show_changes=True,
        backup=False,
        quiet=False,
        indent=True,
    ) -> bool | str:
        """Line-focused editing of a file"""

    def lstat(self, path) -> dict:
        """Returns the lstat attributes for the given file or dir"""

    def makedirs(self, path) -> bool | str | None:
        """
        Create the parent directories of a path. Callers cannot rely on the return.
        """

    def mkdir(self, dir_path) -> bool:
        """Create a directory."""

    def patch(self, originalfile, patchfile, options="", dry_run=False) -> dict:
        """Apply a patch to a file or directory"""

    def prepend(self, path, *args, **kwargs) -> str:
        """Prepend lines to a file."""

    def read(self, path, binary=False) -> str | bytes:
        """Return the content of the file"""

    def readdir(self, path) -> list:
        """Return a list containing the contents of a directory"""

    def readlink(self, path, canonicalize=False) -> str:
        """Return the path that a symlink points to"""

    def remove(self, path) -> bool:
        """Remove the named file"""

    def rename(self, src, dst) -> bool:
        """Rename a file or directory"""

    def replace(
        self,
        path,
        pattern,
        repl,
        count=0,
        flags=8,
        bufsize=1,
        append_if_not_found=False,
        prepend_if_not_found=False,
        not_found_content=None,
        backup=".bak",
        dry_run=False,
        search_only=False,
        show_changes=True,
        ignore_if_missing=False,
        preserve_inode=True,
        backslash_literal=False,
        encoding=None,
    ) -> bool | str:
        """Replace occurrences of a pattern in a file"""

    def rmdir(self, path, recurse=False, verbose=False, older_than=None) -> bool | dict:
        """Remove the specified directory"""

    def search(
        self,
        path,
        pattern,
        flags=8,
        bufsize=1,
        ignore_if_missing=False,
        multiline=False,
    ) -> bool:
        """Search for occurrences of a pattern in a file"""

    def set_mode(self, path, mode) -> str:
        """Set the mode of a file"""

    def stats(self, path, follow_symlinks=True) -> dict:
        """Return a dict containing the stats for a given file"""

    def symlink(
        self, src, path, force=False, atomic=False, follow_symlinks=True
    ) -> bool:
        """Create a symbolic link (symlink, soft link) to a file"""

    def touch(self, name, atime=None, mtime=None) -> bool:
        """Create a file, or set its times."""

    def truncate(self, path, length) -> None:
        """Seek to a position on a file and delete everything after that point"""

    def user_to_uid(self, user) -> int | str:
        """Return the id of a user, an empty string if it does not exist."""

    def uid_to_user(self, uid) -> str:
        """Convert a uid to a user name"""

    def write(self, path, *args, **kwargs) -> str:
        """Write text to a file, overwriting any existing contents"""

    class ManagedFiles(Feature):
        """What the file states are made of"""

        def apply_template_on_contents(
            self, contents, template, context, defaults, saltenv
        ) -> str | dict:
            """Return the contents after applying the templating engine"""

        def check_file_meta(
            self,
            name,
            sfn,
            source,
            source_sum,
            user,
            group,
            mode,
            attrs,
            saltenv,
            contents=None,
            seuser=None,
            serole=None,
            setype=None,
            serange=None,
            verify_ssl=True,
            follow_symlinks=False,
            ignore_ordering=False,
            ignore_whitespace=False,
            ignore_comment_characters=None,
            new_file_diff=False,
        ) -> dict:
            """Check for the changes in the file metadata"""

        def check_managed(
            self,
            name,
            source,
            source_hash,
            source_hash_name,
            user,
            group,
            mode,
            attrs,
            template,
            context,
            defaults,
            saltenv,
            contents=None,
            skip_verify=False,
            seuser=None,
            serole=None,
            setype=None,
            serange=None,
            follow_symlinks=False,
            **kwargs,
        ) -> tuple:
            """Check to see what changes need to be made for a file"""

        def check_managed_changes(
            self,
            name,
            source,
            source_hash,
            source_hash_name,
            user,
            group,
            mode,
            attrs,
            template,
            context,
            defaults,
            saltenv,
            contents=None,
            skip_verify=False,
            keep_mode=False,
            seuser=None,
            serole=None,
            setype=None,
            serange=None,
            verify_ssl=True,
            follow_symlinks=False,
            ignore_ordering=False,
            ignore_whitespace=False,
            ignore_comment_characters=None,
            new_file_diff=False,
            **kwargs,
        ) -> dict | tuple:
            """Return a dictionary of what changes need to be made for a file"""

        def extract_hash(
            self,
            hash_fn,
            hash_type="sha256",
            file_name="",
            source="",
            source_hash_name=None,
        ) -> dict | bool | None:
            """Return the checksum of a file from a file of checksums."""

        def get_diff(
            self,
            file1,
            file2,
            saltenv="base",
            show_filenames=True,
            show_changes=True,
            template=False,
            source_hash_file1=None,
            source_hash_file2=None,
            ignore_ordering=False,
            ignore_whitespace=False,
            ignore_comment_characters=None,
        ) -> str | bool:
            """Return unified diff of two files"""

        def get_managed(
            self,
            name,
            template,
            source,
            source_hash,
            source_hash_name,
            user,
            group,
            mode,
            attrs,
            saltenv,
            context,
            defaults,
            skip_verify=False,
            verify_ssl=True,
            use_etag=False,
            source_hash_sig=None,
            signed_by_any=None,
            signed_by_all=None,
            keyring=None,
            gnupghome=None,
            ignore_ordering=False,
            ignore_whitespace=False,
            ignore_comment_characters=None,
            sig_backend="gpg",
            **kwargs,
        ) -> tuple:
            """Return the managed file data for file.managed"""

        def get_source_sum(
            self,
            file_name="",
            source="",
            source_hash=None,
            source_hash_name=None,
            saltenv="base",
            verify_ssl=True,
            source_hash_sig=None,
            signed_by_any=None,
            signed_by_all=None,
            keyring=None,
            gnupghome=None,
            sig_backend="gpg",
        ) -> dict:
            """Return checksum and type for the arguments of ``file.managed``."""

        def manage_file(
            self,
            name,
            sfn,
            ret,
            source,
            source_sum,
            user,
            group,
            mode,
            attrs,
            saltenv,
            backup,
            makedirs=False,
            template=None,
            show_changes=True,
            contents=None,
            dir_mode=None,
            follow_symlinks=True,
            skip_verify=False,
            keep_mode=False,
            encoding=None,
            encoding_errors="strict",
            seuser=None,
            serole=None,
            setype=None,
            serange=None,
            verify_ssl=True,
            use_etag=False,
            signature=None,
            source_hash_sig=None,
            signed_by_any=None,
            signed_by_all=None,
            keyring=None,
            gnupghome=None,
            ignore_ordering=False,
            ignore_whitespace=False,
            ignore_comment_characters=None,
            new_file_diff=False,
            sig_backend="gpg",
            **kwargs,
        ) -> dict:
            """Make a file as ``file.get_managed`` describes it."""

        def source_list(self, source, source_hash, saltenv) -> tuple:
            """Check the source list and return the source to use"""

    class Ownership(Feature):
        """Owner and group by name or number"""

        def chown(self, path, user, group) -> bool | str | None:
            """Chown a file, pass the file the desired user and group"""

        def lchown(self, path, user, group) -> bool | str | None:
            """Change owner and group of a link itself"""

        def chgrp(self, path, group) -> bool | str | None:
            """Change the group of a file"""

        def get_uid(self, path, follow_symlinks=True) -> int | str:
            """Return the id of the user that owns a given file"""

        def get_gid(self, path, follow_symlinks=True) -> int | str:
            """Return the id of the group that owns a given file"""

    class Backups(Feature):
        """The backups that file states make"""

        def list_backups(self, path, limit=None) -> dict:
            """List the backups that file states made of a file."""

        def list_backups_dir(self, path, limit=None) -> dict:
            """List the backups that file states made of the files of a directory."""

        def restore_backup(self, path, backup_id) -> dict:
            """Restore a backup of a file."""

        def delete_backup(self, path, backup_id) -> dict:
            """Delete a backup of a file."""

    class ContentTests(Feature):
        """Search in files and for paths"""

        def contains(self, path, text) -> bool:
            """Return ``True`` if the file at ``path`` contains ``text``"""

        def contains_glob(self, path, glob_expr) -> bool:
            """Return ``True`` if the given glob matches a string in the named file"""

        def contains_regex(self, path, regex, lchar="") -> bool:
            """Return whether a line of a file matches a regular expression"""

        def path_exists_glob(self, path) -> bool:
            """
            Tests to see if path after expansion is a valid path (file or directory)
            """

    class Comments(Feature):
        """Comment lines out and in"""

        def comment(self, path, regex, char="#", backup=".bak") -> bool | str:
            """Comment out specified lines in a file"""

        def uncomment(self, path, regex, char="#", backup=".bak") -> bool | str:
            """Uncomment specified commented lines in a file"""

    class Seeking(Feature):
        """Parts of files"""

        def seek_read(self, path, size, offset) -> bytes:
            """Seek to a position on a file and read it"""

        def seek_write(self, path, data, offset) -> int:
            """Seek to a position on a file and write to it"""

        def psed(
            self,
            path,
            before,
            after,
            limit="",
            backup=".bak",
            flags="gMS",
            escape_all=False,
            multi=False,
        ) -> None:
            """Make a simple edit to a file (pure Python version)"""

        def get_sum(self, path, form="sha256") -> str:
            """Return the checksum for the given file"""
