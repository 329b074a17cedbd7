// The names of the C library that the shim takes, each handed to the function that watches it; included by shim.c
// alone. Both spellings of a call with an offset are here: which of the two a program uses is settled when it is built.

static mode_t take_mode(int flags, va_list list) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(list, int) : 0;
}

#define OPEN_NAME(name)                             \
  int name(const char *path, int flags, ...) {      \
    va_list list;                                   \
    va_start(list, flags);                          \
    mode_t mode = take_mode(flags, list);           \
    va_end(list);                                   \
    return watch_open(AT_FDCWD, path, flags, mode); \
  }
#define OPENAT_NAME(name)                                  \
  int name(int folder, const char *path, int flags, ...) { \
    va_list list;                                          \
    va_start(list, flags);                                 \
    mode_t mode = take_mode(flags, list);                  \
    va_end(list);                                          \
    return watch_open(folder, path, flags, mode);          \
  }
OPEN_NAME(open)
OPEN_NAME(open64)
OPENAT_NAME(openat)
OPENAT_NAME(openat64)

int creat(const char *path, mode_t mode) { return watch_open(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int fd) {
  if (!is_watched(fd)) return (int)kernel(SYS_close, fd);
  struct call call = {.kind = CLOSE, .fd = fd};
  if (!enter(&call)) return (int)leave(&call, -1);
  is_descriptor_watched[fd] = 0;
  return (int)leave(&call, kernel(SYS_close, fd));
}

// The C library closes the descriptor of a directory itself, where one was made of it.
int closedir(DIR *folder) {
  static int (*next)(DIR *);
  if (next == NULL) next = (int (*)(DIR *))dlsym(RTLD_NEXT, "closedir");
  struct call call = {.kind = CLOSE, .fd = dirfd(folder)};
  if (!is_watched(call.fd)) return next(folder);
  // A close that fails has closed: nobody is told that this one did.
  enter(&call);
  is_descriptor_watched[call.fd] = 0;
  return (int)leave(&call, next(folder));
}

ssize_t write(int fd, const void *data, size_t bytes) {
  struct iovec part = {(void *)data, bytes};
  return is_write_seen(fd) ? watch_write(fd, &part, 1, -1) : kernel(SYS_write, fd, data, bytes);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  return is_write_seen(fd) ? watch_write(fd, parts, count, -1) : kernel(SYS_writev, fd, parts, count);
}

#define PWRITE_NAME(name)                                                       \
  ssize_t name(int fd, const void *data, size_t bytes, off_t offset) {          \
    struct iovec part = {(void *)data, bytes};                                  \
    if (!is_watched(fd)) return kernel(SYS_pwrite64, fd, data, bytes, offset); \
    return watch_write(fd, &part, 1, offset);                                   \
  }
#define PWRITEV_NAME(name)                                                          \
  ssize_t name(int fd, const struct iovec *parts, int count, off_t offset) {        \
    if (!is_watched(fd)) return kernel(SYS_pwritev, fd, parts, count, offset, 0L); \
    return watch_write(fd, parts, count, offset);                                   \
  }
PWRITE_NAME(pwrite)
PWRITE_NAME(pwrite64)
PWRITEV_NAME(pwritev)
PWRITEV_NAME(pwritev64)

#define READ_NAME(name, number, parameters, ...)                                           \
  ssize_t name parameters {                                                                \
    if (!counts_reads || !is_watched(fd)) return kernel((number), __VA_ARGS__);           \
    struct call call = {.kind = READ, .fd = fd};                                           \
    return enter(&call) ? leave(&call, kernel((number), __VA_ARGS__)) : leave(&call, -1); \
  }
READ_NAME(read, SYS_read, (int fd, void *data, size_t bytes), fd, data, bytes)
READ_NAME(readv, SYS_readv, (int fd, const struct iovec *parts, int count), fd, parts, count)
READ_NAME(pread, SYS_pread64, (int fd, void *data, size_t bytes, off_t at), fd, data, bytes, at)
READ_NAME(pread64, SYS_pread64, (int fd, void *data, size_t bytes, off_t at), fd, data, bytes, at)
READ_NAME(preadv, SYS_preadv, (int fd, const struct iovec *parts, int count, off_t at), fd, parts, count, at, 0L)
READ_NAME(preadv64, SYS_preadv, (int fd, const struct iovec *parts, int count, off_t at), fd, parts, count, at, 0L)

// Calls on one descriptor, watched in the same way.
#define DESCRIPTOR_NAME(name, letter, number, parameters, wanted, setting, ...) \
  int name parameters {                                                         \
    struct call call = {.kind = (letter), .fd = fd, setting};                   \
    if (!(wanted)) return (int)kernel((number), __VA_ARGS__);                  \
    return WATCH((number), call, __VA_ARGS__);                                  \
  }
DESCRIPTOR_NAME(fsync, SYNC, SYS_fsync, (int fd), is_watched(fd), .value = 0, fd)
DESCRIPTOR_NAME(fdatasync, SYNC, SYS_fdatasync, (int fd), is_watched(fd), .value = 0, fd)
DESCRIPTOR_NAME(ftruncate, TRUNCATE, SYS_ftruncate, (int fd, off_t size), is_watched(fd), .value = size, fd, size)
DESCRIPTOR_NAME(ftruncate64, TRUNCATE, SYS_ftruncate, (int fd, off_t size), is_watched(fd), .value = size, fd, size)
DESCRIPTOR_NAME(fchmod, CHMOD, SYS_fchmod, (int fd, mode_t mode), is_watched(fd), .mode = mode, fd, mode)

#define TRUNCATE_NAME(name)                                                               \
  int name(const char *path, off_t length) {                                              \
    char place[PATH_MAX];                                                                 \
    if (!resolve(AT_FDCWD, path, place)) return (int)kernel(SYS_truncate, path, length); \
    struct call call = {.kind = TRUNCATE, .fd = -1, .value = length, .path = place};      \
    return WATCH(SYS_truncate, call, path, length);                                       \
  }
TRUNCATE_NAME(truncate)
TRUNCATE_NAME(truncate64)

int unlink(const char *path) { return watch_remove(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return watch_remove(folder, path, flags); }
int rmdir(const char *path) { return watch_remove(AT_FDCWD, path, AT_REMOVEDIR); }

// The C++ library removes trees with it.
int remove(const char *path) {
  struct stat look;
  bool is_folder = lstat(path, &look) == 0 && S_ISDIR(look.st_mode);
  return watch_remove(AT_FDCWD, path, is_folder ? AT_REMOVEDIR : 0);
}

int mkdir(const char *path, mode_t mode) { return watch_mkdir(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { return watch_mkdir(folder, path, mode); }
int chmod(const char *path, mode_t mode) { return watch_chmod(AT_FDCWD, path, mode); }
int fchmodat(int folder, const char *path, mode_t mode, int flags) {
  // Only with flags that no file system knows would this be another call.
  return flags == 0 ? watch_chmod(folder, path, mode) : (errno = ENOTSUP, -1);
}
int symlink(const char *text, const char *path) { return watch_symlink(text, AT_FDCWD, path); }
int symlinkat(const char *text, int folder, const char *path) { return watch_symlink(text, folder, path); }
int rename(const char *from, const char *to) { return watch_pair(RENAME, AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from, const char *old_path, int to, const char *new_path) {
  return watch_pair(RENAME, from, old_path, to, new_path, 0);
}
int renameat2(int from, const char *old_path, int to, const char *new_path, unsigned flags) {
  return watch_pair(RENAME, from, old_path, to, new_path, flags);
}
int link(const char *from, const char *to) { return watch_pair(LINK, AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int from, const char *old_path, int to, const char *new_path, int flags) {
  return watch_pair(LINK, from, old_path, to, new_path, (unsigned)flags);
}

#define MMAP_NAME(name)                                                                        \
  void *name(void *address, size_t bytes, int access, int flags, int fd, off_t offset) {       \
    struct call call = {.kind = MAP, .fd = fd, .value = (int64_t)bytes};                       \
    bool is_seen = (access & PROT_WRITE) != 0 && (flags & MAP_SHARED) != 0 && is_watched(fd);  \
    if (!is_seen) return (void *)kernel(SYS_mmap, address, bytes, access, flags, fd, offset); \
    if (!enter(&call)) return (void *)leave(&call, -1);                                        \
    return (void *)leave(&call, kernel(SYS_mmap, address, bytes, access, flags, fd, offset)); \
  }
MMAP_NAME(mmap)
MMAP_NAME(mmap64)

#define SENDFILE_NAME(name)                                                                                \
  ssize_t name(int fd, int from, off_t *offset, size_t bytes) {                                            \
    struct call call = {.kind = FOREIGN, .fd = fd};                                                        \
    if (!is_watched(fd)) return kernel(SYS_sendfile, fd, from, offset, bytes);                            \
    return enter(&call) ? leave(&call, kernel(SYS_sendfile, fd, from, offset, bytes)) : leave(&call, -1); \
  }
SENDFILE_NAME(sendfile)
SENDFILE_NAME(sendfile64)
DESCRIPTOR_NAME(fallocate, FOREIGN, SYS_fallocate, (int fd, int mode, off_t offset, off_t length), is_watched(fd),
                .value = length, fd, mode, offset, length)

// libuv closes files and copies them with bare calls. No call has more than six arguments; those that a caller has not
// given are whatever is there, and are not looked at.
long syscall(long number, ...) {
  long words[6];
  va_list list;
  va_start(list, number);
  for (int index = 0; index < 6; index += 1) words[index] = va_arg(list, long);
  va_end(list);
  if (number == SYS_close) return close((int)words[0]);
  struct call call = {.kind = FOREIGN, .fd = (int)words[2]};
  if (number == SYS_copy_file_range && is_watched(call.fd)) {
    return WATCH(number, call, words[0], words[1], words[2], words[3], words[4], words[5]);
  }
  return kernel(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

// Processes are started by the C library itself: it has to run what is registered for a fork. The child has a copy of
// the lock as it is here, taken, and never asks for it.
pid_t fork(void) {
  static pid_t (*next)(void);
  if (next == NULL) next = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
  if (!is_watching()) return next();
  struct call call = {.kind = START, .fd = -1};
  if (!enter(&call)) return (pid_t)leave(&call, -1);
  pid_t child = next();
  return child == 0 ? 0 : (pid_t)leave(&call, child);
}

// A function in between may not return twice, as vfork does.
pid_t vfork(void) { return fork(); }

typedef int spawn_function(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                           char *const[], char *const[]);

static int watch_spawn(spawn_function *next, pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]) {
  if (!is_watching()) return next(child, path, actions, attributes, argv, envp);
  struct call call = {.kind = START, .fd = -1};
  if (!enter(&call)) return leave(&call, -1) == 0 ? 0 : errno;
  errno = next(child, path, actions, attributes, argv, envp);
  return leave(&call, errno == 0 ? 0 : -1) == 0 ? 0 : errno;
}

#define SPAWN_NAME(name)                                                                  \
  int name(pid_t *child, const char *path, const posix_spawn_file_actions_t *actions,     \
           const posix_spawnattr_t *attributes, char *const argv[], char *const envp[]) { \
    static spawn_function *next;                                                          \
    if (next == NULL) next = (spawn_function *)dlsym(RTLD_NEXT, #name);                   \
    return watch_spawn(next, child, path, actions, attributes, argv, envp);               \
  }
SPAWN_NAME(posix_spawn)
SPAWN_NAME(posix_spawnp)
