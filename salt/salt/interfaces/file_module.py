"""
The interface of the virtual module ``file``

.. versionadded:: 3009.0
"""

from salt.interfaces import Interface

# parameters have the names that they have in the modules
# pylint: disable=redefined-builtin


class FileInterface(Interface):
    """
    Files and directories: read, write, permissions, and what the states of files need
    """

    __modulename__ = "file"
    __version__ = "1.0"

    # --- Every module

    def gid_to_group(self, gid):
        """
        Convert the group id to the group name on this system
        """

    def group_to_gid(self, group):
        """
        Convert the group to the gid on this system
        """

    def get_gid(self, path, follow_symlinks=True):
        """
        Return the id of the group that owns a given file
        """

    def get_group(self, path, follow_symlinks=True):
        """
        Return the group that owns a given file
        """

    def uid_to_user(self, uid):
        """
        Convert a uid to a user name
        """

    def user_to_uid(self, user):
        """
        Convert user name to a uid
        """

    def get_uid(self, path, follow_symlinks=True):
        """
        Return the id of the user that owns a given file
        """

    def get_user(self, path, follow_symlinks=True):
        """
        Return the user that owns a given file
        """

    # not promised: follow_symlinks, which win_file does not take
    def get_mode(self, path):
        """
        Return the mode of a file
        """

    def set_mode(self, path, mode):
        """
        Set the mode of a file
        """

    # not promised: pgroup, which file does not take
    def lchown(self, path, user, group):
        """
        Chown a file, pass the file the desired user and group without following
        symlinks
        """

    # not promised: pgroup, which file does not take
    # not promised: follow_symlinks, which file does not take
    def chown(self, path, user, group):
        """
        Chown a file, pass the file the desired user and group
        """

    def chgrp(self, path, group):
        """
        Change the group of a file
        """

    def get_sum(self, path, form="sha256"):
        """
        Return the checksum for the given file
        """

    def get_hash(self, path, form="sha256", chunk_size=65536):
        """
        Get the hash sum of a file
        """

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
    ):
        """
        Used by :py:func:`file.get_managed <salt.modules.file.get_managed>` to
        obtain the hash and hash type from the parameters specified below
        """

    @Interface.returns(bool)
    def check_hash(self, path, file_hash):
        """
        Check if a file matches the given hash string
        """
        return False

    @Interface.returns((list, str))
    def find(self, path, *args, **kwargs):
        """
        Approximate the Unix ``find(1)`` command and return a list of paths that
        meet the specified criteria
        """
        return []

    @Interface.returns(None)
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
    ):
        """
        Make a simple edit to a file (pure Python version)
        """

    def uncomment(self, path, regex, char="#", backup=".bak"):
        """
        Uncomment specified commented lines in a file
        """

    def comment(self, path, regex, char="#", backup=".bak"):
        """
        Comment out specified lines in a file
        """

    def comment_line(self, path, regex, char="#", cmnt=True, backup=".bak"):
        """
        Comment or Uncomment a line in a text file
        """

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
    ):
        """
        Line-focused editing of a file
        """

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
    ):
        """
        Replace occurrences of a pattern in a file
        """

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
    ):
        """
        Replace content of a text block in a file, delimited by line markers
        """

    def search(
        self,
        path,
        pattern,
        flags=8,
        bufsize=1,
        ignore_if_missing=False,
        multiline=False,
    ):
        """
        Search for occurrences of a pattern in a file
        """

    def patch(self, originalfile, patchfile, options="", dry_run=False):
        """
        Apply a patch to a file or directory
        """

    @Interface.returns(bool)
    def contains(self, path, text):
        """
        Return ``True`` if the file at ``path`` contains ``text``
        """
        return False

    @Interface.returns(bool)
    def contains_regex(self, path, regex, lchar=""):
        """
        Return True if the given regular expression matches on any line in the text
        of a given file
        """
        return False

    @Interface.returns(bool)
    def contains_glob(self, path, glob_expr):
        """
        Return ``True`` if the given glob matches a string in the named file
        """
        return False

    @Interface.returns(str)
    def append(self, path, *args, **kwargs):
        """
        Append text to the end of a file
        """
        return ""

    @Interface.returns(str)
    def prepend(self, path, *args, **kwargs):
        """
        Prepend text to the beginning of a file
        """
        return ""

    @Interface.returns(str)
    def write(self, path, *args, **kwargs):
        """
        Write text to a file, overwriting any existing contents
        """
        return ""

    def touch(self, name, atime=None, mtime=None):
        """
        Just like the ``touch`` command, create a file if it doesn't exist or simply
        update the atime and mtime if it already does
        """

    def seek_read(self, path, size, offset):
        """
        Seek to a position on a file and read it
        """

    def seek_write(self, path, data, offset):
        """
        Seek to a position on a file and write to it
        """

    @Interface.returns(None)
    def truncate(self, path, length):
        """
        Seek to a position on a file and delete everything after that point
        """

    # not promised: nostat, which win_file does not take
    def is_link(self, path):
        """
        Check if the path is a symbolic link
        """

    # not promised: link, which file does not take
    # not promised: path, which win_file does not take
    @Interface.returns(bool)
    def symlink(self, src, path, force=False, atomic=False, follow_symlinks=True):
        """
        Create a symbolic link (symlink, soft link) to a file
        """
        return False

    @Interface.returns(bool)
    def rename(self, src, dst):
        """
        Rename a file or directory
        """
        return False

    @Interface.returns(bool)
    def copy(self, src, dst, recurse=False, remove_existing=False):
        """
        Copy a file or directory from source to dst
        """
        return False

    @Interface.returns(dict)
    def lstat(self, path):
        """
        Returns the lstat attributes for the given file or dir
        """
        return {}

    def access(self, path, mode):
        """
        Test whether the Salt process has the specified access to the file
        """

    def read(self, path, binary=False):
        """
        Return the content of the file
        """

    def readlink(self, path, canonicalize=False):
        """
        Return the path that a symlink points to
        """

    @Interface.returns(list)
    def readdir(self, path):
        """
        Return a list containing the contents of a directory
        """
        return []

    # not promised: hash_type, which is 'sha256' or None by default
    @Interface.returns(dict)
    def stats(self, path, follow_symlinks=True):
        """
        Return a dict containing the stats for a given file
        """
        return {}

    @Interface.returns((bool, dict))
    def rmdir(self, path, recurse=False, verbose=False, older_than=None):
        """
        Remove the specified directory
        """
        return False

    @Interface.returns(bool)
    def remove(self, path, force=False):
        """
        Remove the named file
        """
        return False

    def directory_exists(self, path):
        """
        Tests to see if path is a valid directory
        """

    def file_exists(self, path):
        """
        Tests to see if path is a valid file
        """

    @Interface.returns(bool)
    def path_exists_glob(self, path):
        """
        Tests to see if path after expansion is a valid path (file or directory)
        """
        return False

    def source_list(self, source, source_hash, saltenv):
        """
        Check the source list and return the source to use
        """

    def apply_template_on_contents(
        self, contents, template, context, defaults, saltenv
    ):
        """
        Return the contents after applying the templating engine
        """

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
    ):
        """
        Return the managed file data for file.managed
        """

    def extract_hash(
        self,
        hash_fn,
        hash_type="sha256",
        file_name="",
        source="",
        source_hash_name=None,
    ):
        """
        This routine is called from the :mod:`file.managed
        <salt.states.file.managed>` state to pull a hash from a remote file
        """

    # not promised: path, which file does not take
    # not promised: name, which win_file does not take
    # not promised: owner, which file does not take
    # not promised: grant_perms, which file does not take
    # not promised: deny_perms, which file does not take
    # not promised: inheritance, which file does not take
    # not promised: reset, which file does not take
    # not promised: user, which win_file does not take
    # not promised: group, which win_file does not take
    # not promised: mode, which win_file does not take
    # not promised: attrs, which win_file does not take
    # not promised: follow_symlinks, which win_file does not take
    # not promised: seuser, which win_file does not take
    # not promised: serole, which win_file does not take
    # not promised: setype, which win_file does not take
    # not promised: serange, which win_file does not take
    def check_perms(self, name, ret, user, group, mode):
        """
        Added selinux options
        """

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
    ):
        """
        Check to see what changes need to be made for a file
        """

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
    ):
        """
        Return a dictionary of what changes need to be made for a file
        """

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
    ):
        """
        Check for the changes in the file metadata
        """

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
    ):
        """
        Return unified diff of two files
        """

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
    ):
        """
        Checks the destination against what was retrieved with get_managed and makes
        the appropriate modifications (if necessary)
        """

    # not promised: path, which file does not take
    # not promised: owner, which file does not take
    # not promised: grant_perms, which file does not take
    # not promised: deny_perms, which file does not take
    # not promised: inheritance, which file does not take
    # not promised: reset, which file does not take
    # not promised: dir_path, which win_file does not take
    # not promised: user, which win_file does not take
    # not promised: group, which win_file does not take
    # not promised: mode, which win_file does not take
    @Interface.returns(bool)
    def mkdir(self, dir_path):
        """
        Ensure that a directory is available
        """
        return False

    # not promised: owner, which file does not take
    # not promised: grant_perms, which file does not take
    # not promised: deny_perms, which file does not take
    # not promised: inheritance, which file does not take
    # not promised: reset, which file does not take
    # not promised: user, which win_file does not take
    # not promised: group, which win_file does not take
    # not promised: mode, which win_file does not take
    @Interface.returns((bool, str))
    def makedirs(self, path):
        """
        Ensure that the directory containing this path is available
        """
        return False

    # not promised: path, which file does not take
    # not promised: owner, which file does not take
    # not promised: grant_perms, which file does not take
    # not promised: deny_perms, which file does not take
    # not promised: inheritance, which file does not take
    # not promised: reset, which file does not take
    # not promised: name, which win_file does not take
    # not promised: user, which win_file does not take
    # not promised: group, which win_file does not take
    # not promised: mode, which win_file does not take
    @Interface.returns((None, bool, dict))
    def makedirs_perms(self, name):
        """
        Taken and modified from os.makedirs to set user, group and mode for each
        directory created
        """

    @Interface.returns(dict)
    def list_backups(self, path, limit=None):
        """
        Lists the previous versions of a file backed up using Salt's :ref:`file
        state backup <file-state-backups>` system
        """
        return {}

    @Interface.returns(dict)
    def list_backups_dir(self, path, limit=None):
        """
        Lists the previous versions of a directory backed up using Salt's :ref:`file
        state backup <file-state-backups>` system
        """
        return {}

    @Interface.returns(dict)
    def restore_backup(self, path, backup_id):
        """
        Restore a previous version of a file that was backed up using Salt's
        :ref:`file state backup <file-state-backups>` system
        """
        return {}

    @Interface.returns(dict)
    def delete_backup(self, path, backup_id):
        """
        Delete a previous version of a file that was backed up using Salt's
        :ref:`file state backup <file-state-backups>` system
        """
        return {}

    def pardir(self):
        """
        Return the relative parent directory path symbol for underlying OS
        """

    def normpath(self, path):
        """
        Returns Normalize path, eliminating double slashes, etc
        """

    def basename(self, path):
        """
        Returns the final component of a pathname
        """

    def dirname(self, path):
        """
        Returns the directory component of a pathname
        """

    def join(self, *args):
        """
        Return a normalized file system path for the underlying OS
        """

    # --- Some modules

    @Interface.optional
    @Interface.returns((None, dict))
    def lsattr(self, path):
        """
        Obtain the modifiable attributes of the given file
        """

    @Interface.optional
    @Interface.returns(bool)
    def chattr(self, *files, **kwargs):
        """
        Change the attributes of files
        """
        return False

    @Interface.optional
    def sed(
        self,
        path,
        before,
        after,
        limit="",
        backup=".bak",
        options="-r -e",
        flags="g",
        escape_all=False,
        negate_match=False,
    ):
        """
        Make a simple edit to a file
        """

    @Interface.optional
    @Interface.returns(bool)
    def sed_contains(self, path, text, limit="", flags="g"):
        """
        Return True if the file at ``path`` contains ``text``
        """
        return False

    @Interface.optional
    @Interface.returns(bool)
    def link(self, src, path):
        """
        Create a hard link to a file
        """
        return False

    @Interface.optional
    def is_hardlink(self, path):
        """
        Check if the path is a hard link by verifying that the number of links is
        larger than 1
        """

    @Interface.optional
    @Interface.returns((bool, dict))
    def statvfs(self, path):
        """
        Perform a statvfs call against the filesystem that the file resides on
        """
        return False

    @Interface.optional
    @Interface.returns(bool)
    def restorecon(self, path, recursive=False):
        """
        Reset the SELinux context on a given path
        """
        return False

    @Interface.optional
    def get_selinux_context(self, path):
        """
        Get an SELinux context from a given path
        """

    @Interface.optional
    def set_selinux_context(
        self, path, user=None, role=None, type=None, range=None, persist=False
    ):
        """
        Added persist option
        """

    @Interface.optional
    def get_devmm(self, name):
        """
        Get major/minor info from a device
        """

    @Interface.optional
    def is_chrdev(self, name):
        """
        Check if a file exists and is a character device
        """

    @Interface.optional
    @Interface.returns(dict)
    def mknod_chrdev(self, name, major, minor, user=None, group=None, mode="0660"):
        """
        Create a character device
        """
        return {}

    @Interface.optional
    def is_blkdev(self, name):
        """
        Check if a file exists and is a block device
        """

    @Interface.optional
    @Interface.returns(dict)
    def mknod_blkdev(self, name, major, minor, user=None, group=None, mode="0660"):
        """
        Create a block device
        """
        return {}

    @Interface.optional
    def is_fifo(self, name):
        """
        Check if a file exists and is a FIFO
        """

    @Interface.optional
    @Interface.returns(dict)
    def mknod_fifo(self, name, user=None, group=None, mode="0660"):
        """
        Create a FIFO pipe
        """
        return {}

    @Interface.optional
    def mknod(self, name, ntype, major=0, minor=0, user=None, group=None, mode="0600"):
        """
        Create a block device, character device, or fifo pipe
        """

    @Interface.optional
    @Interface.returns(dict)
    def list_backup(self, path, limit=None):
        """
        Lists the previous versions of a file backed up using Salt's :ref:`file
        state backup <file-state-backups>` system
        """
        return {}

    @Interface.optional
    @Interface.returns(dict)
    def remove_backup(self, path, backup_id):
        """
        Delete a previous version of a file that was backed up using Salt's
        :ref:`file state backup <file-state-backups>` system
        """
        return {}

    @Interface.optional
    def grep(self, path, pattern, *opts):
        """
        Grep for a string in the specified file
        """

    @Interface.optional
    @Interface.returns(dict)
    def open_files(self, by_pid=False):
        """
        Return a list of all physical open files on the system
        """
        return {}

    @Interface.optional
    def move(self, src, dst, disallow_copy_and_unlink=False):
        """
        Move a file or directory
        """

    @Interface.optional
    def diskusage(self, path):
        """
        Recursively calculate disk usage of path and return it in bytes
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pgid(self, path, follow_symlinks=True):
        """
        Return the id of the primary group that owns a given file (Windows only)
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def get_pgroup(self, path, follow_symlinks=True):
        """
        Return the name of the primary group that owns a given file (Windows only)
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def chpgrp(self, path, group):
        """
        Change the group of a file
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def version(self, path):
        """
        Get the version of a file
        """

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def version_details(self, path):
        """
        Get file details for a file
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(dict)
    def get_attributes(self, path):
        """
        Return a dictionary object with the Windows file attributes for a file
        """
        return {}

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    @Interface.returns(bool)
    def set_attributes(
        self,
        path,
        archive=None,
        hidden=None,
        normal=None,
        notIndexed=None,
        readonly=None,
        system=None,
        temporary=None,
    ):
        """
        Set file attributes for a file
        """
        return False

    @Interface.optional
    @Interface.supported(kernel=["Windows"])
    def set_perms(
        self, path, grant_perms=None, deny_perms=None, inheritance=True, reset=False
    ):
        """
        Set permissions for the given path
        """
