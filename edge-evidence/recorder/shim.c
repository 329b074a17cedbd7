// A library for LD_PRELOAD that watches what one process does to the files below a folder: it numbers the calls and
// records them with their data, kills the process at one of them, or makes one of them fail. For Linux on 64 bits with
// glibc; built and driven by recorder/shim.ts, its records are read by recorder/recording.ts.
//
// The process that is started with it is the one that is watched: it forgets the variables below before `main`, so what
// it starts is not watched and does not know; a fork of it is not watched from its first instruction on.
//   QLE_SHIM_ROOT   absolute, without links: this path and what is below it is watched. Without it nothing is.
//   QLE_SHIM_SKIP   absolute: this path and what is below it is not, although it is below the root.
//   QLE_SHIM_LOG    the recording, which is appended to. Without it calls are only counted.
//   QLE_SHIM_KILL   "before N" or "after N": SIGKILL at the N-th call.
//   QLE_SHIM_FAULT  "N ERRNO KINDS once|on [BYTES]": from the N-th call on, the first call of one of KINDS fails with
//                   ERRNO, or each of them does. With BYTES, the first of them that writes more is cut to so many bytes
//                   and succeeds, and the error meets those that follow. KINDS are letters as below, or "*" for all.
//   QLE_SHIM_READS  when set, reads are counted too and can be made to fail. They are never recorded.
//   QLE_SHIM_KEEP   when set, nothing is forgotten: children are watched as well, each with numbers of its own.
//
// One lock is held over each watched call, so the order of the records is the order in which the calls were made. Only
// regular files and directories are watched: a FIFO that blocks would hold the lock for ever. Not seen: io_uring (Node
// does not use it), times and owners of files.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(long) == 8, "an offset has to fit in one register");

enum kind {
  OPEN = 'o',    // of what is there, for reading
  CREATE = 'O',  // for writing, creating or truncating
  CLOSE = 'c',
  WRITE = 'w',
  TRUNCATE = 't',
  SYNC = 's',
  RENAME = 'r',
  UNLINK = 'u',
  LINK = 'l',
  SYMLINK = 'y',
  MKDIR = 'k',
  RMDIR = 'x',
  CHMOD = 'm',
  ANSWER = 'a',   // a write to standard output: what it says is acknowledged
  START = 'f',    // of a process: from here on a command may run
  MAP = 'M',      // shared and writable: what is written through it is not seen
  FOREIGN = '!',  // moves data inside of the kernel: not seen either
  READ = 'R',
};

// In the file little-endian, as on every machine that this is for. `path` and `data` follow it, without padding.
struct header {
  uint32_t size;  // of the whole record, in bytes
  uint32_t number;
  uint32_t pid;
  int32_t fd;           // -1 for a call that has none
  int64_t value;        // write: offset; truncate: length; open: flags
  int64_t result;       // what the call answered, or -errno
  uint32_t path_bytes;  // absolute; none for a call on a descriptor
  uint8_t kind;
  uint8_t created;  // open: made the file
  uint16_t mode;    // open that created, mkdir, chmod: permission bits
};

struct call {
  enum kind kind;
  int fd;
  int64_t value;
  const char *path;
  bool created;
  mode_t mode;
  // What is written, or the second path of a rename, link or symlink.
  const struct iovec *parts;
  int count;
  int64_t bytes_max;  // set by `enter` for a write that is to be cut; -1 otherwise
};

enum { descriptors_max = 65536, log_descriptor = 700, parts_max = IOV_MAX };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t owner;
static char root[PATH_MAX], skip[PATH_MAX];
static unsigned char is_descriptor_watched[descriptors_max];
static int log_fd = -1;
static uint32_t calls, kill_number;
static bool kills_after, counts_reads;
static struct {
  uint32_t number;
  int error;
  char kinds[32];
  bool lasts;
  bool is_spent;
  long bytes;
} fault;

typedef long kernel_function(long number, ...);

// The function of the C library that makes any call: what is taken here never comes back here.
static kernel_function *find_kernel(void) {
  static kernel_function *next;
  if (next == NULL) next = (kernel_function *)dlsym(RTLD_NEXT, "syscall");
  return next;
}

#define kernel(...) find_kernel()(__VA_ARGS__)

static void give_up(const char *what) {
  dprintf(STDERR_FILENO, "shim: %s\n", what);
  abort();
}

__attribute__((constructor)) static void begin(void) {
  static const char *const names[] = {"LD_PRELOAD",     "QLE_SHIM_ROOT",  "QLE_SHIM_SKIP", "QLE_SHIM_LOG",
                                      "QLE_SHIM_KILL",  "QLE_SHIM_FAULT", "QLE_SHIM_READS"};
  const char *root_text = getenv("QLE_SHIM_ROOT"), *skip_text = getenv("QLE_SHIM_SKIP");
  const char *log_text = getenv("QLE_SHIM_LOG"), *kill_text = getenv("QLE_SHIM_KILL");
  const char *fault_text = getenv("QLE_SHIM_FAULT");
  char when[8];
  if (root_text == NULL) return;
  snprintf(root, sizeof root, "%s", root_text);
  if (skip_text != NULL) snprintf(skip, sizeof skip, "%s", skip_text);
  if (log_text != NULL) {
    int fd = open(log_text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    // Out of the way: the process has the numbers that it would have without this.
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, log_descriptor);
    if (log_fd < 0) give_up("the recording cannot be opened");
    kernel(SYS_close, fd);
  }
  if (kill_text != NULL && sscanf(kill_text, "%7s %u", when, &kill_number) != 2) give_up("QLE_SHIM_KILL is no place");
  kills_after = kill_text != NULL && strcmp(when, "after") == 0;
  fault.bytes = -1;
  if (fault_text != NULL &&
      sscanf(fault_text, "%u %d %31s %7s %ld", &fault.number, &fault.error, fault.kinds, when, &fault.bytes) < 4) {
    give_up("QLE_SHIM_FAULT is no fault");
  }
  fault.lasts = fault_text != NULL && strcmp(when, "on") == 0;
  counts_reads = getenv("QLE_SHIM_READS") != NULL;
  if (getenv("QLE_SHIM_KEEP") == NULL) {
    for (size_t index = 0; index < sizeof names / sizeof names[0]; index += 1) unsetenv(names[index]);
  }
  // Last: until now nothing was watched, these calls included.
  owner = getpid();
}

static bool is_watching(void) { return owner != 0 && getpid() == owner; }

static bool is_watched(int fd) {
  return fd >= 0 && fd < descriptors_max && is_descriptor_watched[fd] != 0 && is_watching();
}

static bool is_below(const char *path, const char *folder) {
  size_t length = strlen(folder);
  return length > 0 && strncmp(path, folder, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

// Takes `.`, `..` and doubled slashes out of an absolute path. Links are not followed: the root has none.
static void straighten(char *path) {
  char *end = path;
  for (const char *from = path; *from != '\0';) {
    while (*from == '/') from += 1;
    size_t length = strcspn(from, "/");
    if (length == 2 && strncmp(from, "..", 2) == 0) {
      while (end > path && *--end != '/') {
      }
    } else if (length > 0 && !(length == 1 && *from == '.')) {
      *end++ = '/';
      memmove(end, from, length);
      end += length;
    }
    from += length;
  }
  *end = '\0';
}

// The absolute path of what a call names. False where it is not watched.
static bool resolve(int folder, const char *path, char place[PATH_MAX]) {
  char base[PATH_MAX] = "", link[40];
  if (!is_watching() || path == NULL || *path == '\0') return false;
  if (*path != '/') {
    snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
    ssize_t length = readlink(link, base, sizeof base - 1);
    if (length < 0) return false;
    base[length] = '\0';
  }
  int length = snprintf(place, PATH_MAX, "%s/%s", base, path);
  if (length < 0 || length >= PATH_MAX) return false;
  straighten(place);
  return is_below(place, root) && !is_below(place, skip);
}

static size_t count_bytes(const struct iovec *parts, int count) {
  size_t bytes = 0;
  for (int index = 0; index < count; index += 1) bytes += parts[index].iov_len;
  return bytes;
}

// The first `bytes` of `parts`, as parts of their own; answers how many they are.
static int take_parts(struct iovec *taken, const struct iovec *parts, int count, size_t bytes) {
  int used = 0;
  for (; used < count && used < parts_max && bytes > 0; used += 1) {
    taken[used] = parts[used];
    if (taken[used].iov_len > bytes) taken[used].iov_len = bytes;
    bytes -= taken[used].iov_len;
  }
  return used;
}

static void die(void) {
  for (;;) kernel(SYS_kill, owner, SIGKILL);
}

// Whether the call is to fail, with `errno` set; a write may be told to be short instead.
static bool is_faulty(struct call *call) {
  if (fault.number == 0 || calls < fault.number || fault.is_spent) return false;
  if (strchr(fault.kinds, '*') == NULL && strchr(fault.kinds, call->kind) == NULL) return false;
  if (fault.bytes >= 0) {
    if (call->kind == WRITE && count_bytes(call->parts, call->count) > (size_t)fault.bytes) {
      call->bytes_max = fault.bytes;
      fault.bytes = -1;
    }
    return false;
  }
  fault.is_spent = !fault.lasts;
  errno = fault.error;
  return true;
}

// Takes the lock, which `leave` gives back. False where the call is not to be made.
static bool enter(struct call *call) {
  pthread_mutex_lock(&lock);
  calls += 1;
  call->bytes_max = -1;
  if (calls == kill_number && !kills_after) die();
  return !is_faulty(call);
}

static void record(const struct call *call, int64_t result, int error) {
  // Static: the lock is held, and a thread of Node has little stack.
  static struct iovec parts[parts_max + 2];
  bool writes = call->kind == WRITE || call->kind == ANSWER;
  size_t data_bytes = writes ? (result < 0 ? 0 : (size_t)result) : count_bytes(call->parts, call->count);
  int count = 2 + take_parts(parts + 2, call->parts, call->count, data_bytes);
  uint32_t path_bytes = call->path == NULL ? 0 : (uint32_t)strlen(call->path);
  struct header header = {
      .size = (uint32_t)(sizeof header + path_bytes + data_bytes),
      .number = calls,
      .pid = (uint32_t)owner,
      .fd = call->fd,
      .value = call->value,
      .result = result < 0 ? -error : result,
      .path_bytes = path_bytes,
      .kind = (uint8_t)call->kind,
      .created = call->created,
      .mode = call->mode & 07777,
  };
  parts[0] = (struct iovec){&header, sizeof header};
  parts[1] = (struct iovec){(void *)call->path, path_bytes};
  if (kernel(SYS_writev, log_fd, parts, count) != header.size) give_up("the recording cannot be written");
}

static long leave(const struct call *call, long result) {
  int error = errno;
  if (log_fd >= 0 && call->kind != READ) record(call, result, error);
  if (calls == kill_number && kills_after) die();
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

static int watch_open(int folder, const char *path, int flags, mode_t mode) {
  char place[PATH_MAX];
  struct stat look;
  bool may_change = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
  bool is_seen = resolve(folder, path, place);
  if (is_seen && fstatat(folder, path, &look, 0) == 0) is_seen = S_ISREG(look.st_mode) || S_ISDIR(look.st_mode);
  if (!is_seen) return (int)kernel(SYS_openat, folder, path, flags, mode);
  struct call call = {.kind = may_change ? CREATE : OPEN, .fd = -1, .value = flags, .path = place};
  if (!enter(&call)) return (int)leave(&call, -1);
  bool was_there = fstatat(folder, path, &look, 0) == 0;
  call.fd = (int)kernel(SYS_openat, folder, path, flags, mode);
  if (call.fd >= descriptors_max) give_up("a descriptor is beyond those that are watched");
  if (call.fd >= 0) {
    is_descriptor_watched[call.fd] = 1;
    call.created = !was_there;
    if (fstat(call.fd, &look) == 0) call.mode = look.st_mode;
  }
  return (int)leave(&call, call.fd);
}

// `offset` is -1 for a write where the descriptor stands.
static ssize_t watch_write(int fd, const struct iovec *parts, int count, int64_t offset) {
  static struct iovec cut[parts_max];
  struct call call = {.kind = is_watched(fd) ? WRITE : ANSWER, .fd = fd, .parts = parts, .count = count};
  if (!enter(&call)) return leave(&call, -1);
  if (call.bytes_max >= 0) {
    count = take_parts(cut, parts, count, (size_t)call.bytes_max);
    parts = cut;
  }
  long result = offset < 0 ? kernel(SYS_writev, fd, parts, count) : kernel(SYS_pwritev, fd, parts, count, offset, 0);
  if (call.kind == WRITE && result >= 0) call.value = offset < 0 ? lseek(fd, 0, SEEK_CUR) - result : offset;
  return leave(&call, result);
}

static bool is_write_seen(int fd) { return is_watched(fd) || (fd == STDOUT_FILENO && is_watching()); }

// A call that has one path or one descriptor, and a result that says nothing more than whether it succeeded.
#define WATCH(number, call, ...) \
  (enter(&(call)) ? (int)leave(&(call), kernel((number), __VA_ARGS__)) : (int)leave(&(call), -1))

static int watch_remove(int folder, const char *path, int flags) {
  char place[PATH_MAX];
  if (!resolve(folder, path, place)) return (int)kernel(SYS_unlinkat, folder, path, flags);
  struct call call = {.kind = (flags & AT_REMOVEDIR) != 0 ? RMDIR : UNLINK, .fd = -1, .path = place};
  return WATCH(SYS_unlinkat, call, folder, path, flags);
}

static int watch_mkdir(int folder, const char *path, mode_t mode) {
  char place[PATH_MAX];
  struct stat look;
  if (!resolve(folder, path, place)) return (int)kernel(SYS_mkdirat, folder, path, mode);
  struct call call = {.kind = MKDIR, .fd = -1, .path = place};
  if (!enter(&call)) return (int)leave(&call, -1);
  long result = kernel(SYS_mkdirat, folder, path, mode);
  if (result == 0 && fstatat(folder, path, &look, 0) == 0) call.mode = look.st_mode;
  return (int)leave(&call, result);
}

// Rename and link, recorded when either end is watched.
static int watch_pair(enum kind kind, int from, const char *old_path, int to, const char *new_path, unsigned flags) {
  char source[PATH_MAX], target[PATH_MAX];
  long number = kind == RENAME ? SYS_renameat2 : SYS_linkat;
  bool is_seen = resolve(from, old_path, source);
  is_seen = resolve(to, new_path, target) || is_seen;
  if (!is_seen) return (int)kernel(number, from, old_path, to, new_path, flags);
  struct iovec second = {target, strlen(target)};
  struct call call = {.kind = kind, .fd = -1, .value = flags, .path = source, .parts = &second, .count = 1};
  return WATCH(number, call, from, old_path, to, new_path, flags);
}

static int watch_symlink(const char *text, int folder, const char *path) {
  char place[PATH_MAX];
  if (!resolve(folder, path, place)) return (int)kernel(SYS_symlinkat, text, folder, path);
  struct iovec second = {(void *)text, strlen(text)};
  struct call call = {.kind = SYMLINK, .fd = -1, .path = place, .parts = &second, .count = 1};
  return WATCH(SYS_symlinkat, call, text, folder, path);
}

static int watch_chmod(int folder, const char *path, mode_t mode) {
  char place[PATH_MAX];
  if (!resolve(folder, path, place)) return (int)kernel(SYS_fchmodat, folder, path, mode);
  struct call call = {.kind = CHMOD, .fd = -1, .path = place, .mode = mode};
  return WATCH(SYS_fchmodat, call, folder, path, mode);
}

#include "shim-names.h"
