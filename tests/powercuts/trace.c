/* Records what a process does to the files below $TRACE_ROOT, into the file $TRACE_FILE.
 *
 * Loaded by LD_PRELOAD. Each call is two events: one before it, with the bytes that it writes, and
 * one after it. Both carry the call's number, so a reader sees which calls overlapped. A program
 * adds events of its own with trace_mark. Writes through a map are not seen.
 *
 * An event: kind, number, offset, flags, size of the first name, size of the data; then both.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { END = 0, WRITE, SYNC, TRUNCATE, CREATE, RENAME, REMOVE, MARK };

struct event {
    uint32_t kind, flags;
    uint64_t number, offset, name_bytes, data_bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t calls;
static const char *root;
static int trace = -1;

__attribute__((constructor)) static void start(void)
{
    const char *file = getenv("TRACE_FILE");
    root = getenv("TRACE_ROOT");
    if (file && root)
        trace = syscall(SYS_openat, AT_FDCWD, file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void put_all(struct iovec *parts, int count)
{
    while (count) {
        ssize_t put = syscall(SYS_writev, trace, parts, count);
        if (put < 0)
            abort();
        while (count && (size_t)put >= parts->iov_len) {
            put -= parts->iov_len;
            parts++, count--;
        }
        if (count) {
            parts->iov_base = (char *)parts->iov_base + put;
            parts->iov_len -= put;
        }
    }
}

/* Returns the number of the call that the event begins, or `number` if it is not 0. */
static uint64_t put(uint32_t kind, uint64_t number, const char *name, uint64_t offset,
                    uint32_t flags, const struct iovec *data, int count)
{
    struct iovec parts[2 + IOV_MAX];
    struct event event = {kind, flags, 0, offset, strlen(name), 0};
    for (int n = 0; n < count; n++) {
        parts[2 + n] = data[n];
        event.data_bytes += data[n].iov_len;
    }
    parts[0] = (struct iovec){&event, sizeof event};
    parts[1] = (struct iovec){(void *)name, event.name_bytes};
    int kept = errno;
    pthread_mutex_lock(&lock);
    event.number = number ? number : (uint64_t)getpid() << 32 | ++calls;
    put_all(parts, 2 + count);
    pthread_mutex_unlock(&lock);
    errno = kept;
    return event.number;
}

static void end(uint64_t number, long result)
{
    if (number)
        put(END, number, "", 0, result < 0, NULL, 0);
}

void trace_mark(const char *text)
{
    put(MARK, 0, text, 0, 0, NULL, 0);
}

static int is_below(const char *path)
{
    size_t size = strlen(root);
    return !strncmp(path, root, size) && (path[size] == '/' || !path[size]);
}

/* Whether the descriptor's file is traced; if so, its path is in `path`. */
static int traced(int fd, char *path)
{
    char link[64];
    if (trace < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    path[size < 0 ? 0 : size] = 0;
    return is_below(path);
}

/* Whether a name is below the root; if so, its path is in `path`. */
static int named(int folder, const char *name, char *path)
{
    char place[PATH_MAX] = "";
    if (trace < 0)
        return 0;
    if (*name != '/') {
        if (folder == AT_FDCWD)
            getcwd(place, sizeof place);
        else if (!traced(folder, place))
            return 0;
    }
    return snprintf(path, PATH_MAX, "%s%s%s", place, *place ? "/" : "", name) < PATH_MAX
           && is_below(path);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static uint64_t begin_write(int fd, const struct iovec *data, int count, off_t offset)
{
    char path[PATH_MAX];
    struct stat status;
    int kept = errno;
    uint64_t number = 0;
    if (traced(fd, path)) {
        int flags = fcntl(fd, F_GETFL);
        if (offset < 0)
            offset = (flags & O_APPEND) && !fstat(fd, &status) ? status.st_size
                                                              : lseek(fd, 0, SEEK_CUR);
        number = put(WRITE, 0, path, offset, !!(flags & O_DSYNC), data, count);
    }
    errno = kept;
    return number;
}

ssize_t pwritev(int fd, const struct iovec *data, int count, off_t offset)
{
    uint64_t number = begin_write(fd, data, count, offset);
    ssize_t result = REAL(pwritev)(fd, data, count, offset);
    end(number, result);
    return result;
}

ssize_t pwritev64(int fd, const struct iovec *data, int count, off_t offset)
{
    return pwritev(fd, data, count, offset);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    struct iovec part = {(void *)data, size};
    uint64_t number = begin_write(fd, &part, 1, offset);
    ssize_t result = REAL(pwrite)(fd, data, size, offset);
    end(number, result);
    return result;
}

ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset)
{
    return pwrite(fd, data, size, offset);
}

ssize_t writev(int fd, const struct iovec *data, int count)
{
    uint64_t number = begin_write(fd, data, count, -1);
    ssize_t result = REAL(writev)(fd, data, count);
    end(number, result);
    return result;
}

ssize_t write(int fd, const void *data, size_t size)
{
    struct iovec part = {(void *)data, size};
    uint64_t number = begin_write(fd, &part, 1, -1);
    ssize_t result = REAL(write)(fd, data, size);
    end(number, result);
    return result;
}

static uint64_t begin(uint32_t kind, int fd, uint64_t offset)
{
    char path[PATH_MAX];
    return traced(fd, path) ? put(kind, 0, path, offset, 0, NULL, 0) : 0;
}

int fsync(int fd)
{
    uint64_t number = begin(SYNC, fd, 0);
    int result = REAL(fsync)(fd);
    end(number, result);
    return result;
}

int fdatasync(int fd)
{
    uint64_t number = begin(SYNC, fd, 0);
    int result = REAL(fdatasync)(fd);
    end(number, result);
    return result;
}

int ftruncate(int fd, off_t size)
{
    uint64_t number = begin(TRUNCATE, fd, size);
    int result = REAL(ftruncate)(fd, size);
    end(number, result);
    return result;
}

int ftruncate64(int fd, off_t size)
{
    return ftruncate(fd, size);
}

static int open_at(int folder, const char *name, int flags, mode_t mode)
{
    char path[PATH_MAX];
    struct stat status;
    uint64_t number = 0;
    int kept = errno;
    if ((flags & (O_CREAT | O_TRUNC)) && (flags & O_TMPFILE) != O_TMPFILE
        && named(folder, name, path)) {
        if (lstat(path, &status))
            number = put(CREATE, 0, path, 0, 0, NULL, 0);
        else if (flags & O_TRUNC)
            number = put(TRUNCATE, 0, path, 0, 0, NULL, 0);
    }
    errno = kept;
    int result = syscall(SYS_openat, folder, name, flags, mode);
    end(number, result);
    return result;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *name, int flags, ...)
{
    MODE(flags)
    return open_at(AT_FDCWD, name, flags, mode);
}

int open64(const char *name, int flags, ...)
{
    MODE(flags)
    return open_at(AT_FDCWD, name, flags | O_LARGEFILE, mode);
}

int openat(int folder, const char *name, int flags, ...)
{
    MODE(flags)
    return open_at(folder, name, flags, mode);
}

int openat64(int folder, const char *name, int flags, ...)
{
    MODE(flags)
    return open_at(folder, name, flags | O_LARGEFILE, mode);
}

int mkdirat(int folder, const char *name, mode_t mode)
{
    char path[PATH_MAX];
    uint64_t number = named(folder, name, path) ? put(CREATE, 0, path, 0, 1, NULL, 0) : 0;
    int result = REAL(mkdirat)(folder, name, mode);
    end(number, result);
    return result;
}

int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}

int renameat(int from, const char *old, int to, const char *fresh)
{
    char source[PATH_MAX], target[PATH_MAX];
    struct iovec part = {target, 0};
    uint64_t number = 0;
    if (named(from, old, source) && named(to, fresh, target)) {
        part.iov_len = strlen(target);
        number = put(RENAME, 0, source, 0, 0, &part, 1);
    }
    int result = REAL(renameat)(from, old, to, fresh);
    end(number, result);
    return result;
}

int rename(const char *old, const char *fresh)
{
    return renameat(AT_FDCWD, old, AT_FDCWD, fresh);
}

int unlinkat(int folder, const char *name, int flags)
{
    char path[PATH_MAX];
    uint64_t number = named(folder, name, path) ? put(REMOVE, 0, path, 0, 0, NULL, 0) : 0;
    int result = REAL(unlinkat)(folder, name, flags);
    end(number, result);
    return result;
}

int unlink(const char *name)
{
    return unlinkat(AT_FDCWD, name, 0);
}

int rmdir(const char *name)
{
    return unlinkat(AT_FDCWD, name, AT_REMOVEDIR);
}
