/* A disk that fails on demand: stands between the real program and its C library (LD_PRELOAD), for every file below the
   directory that LONGHAUL_TEST_DISK names. How the disk is at the moment says the first letter of the file beside that
   directory, NAME.orders: f full, e errors when it is written, u when it is read,
   r read-only, s slow to sync; anything else, or no file: it is well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static char of_path(const char *path)
{
    const char *disk = getenv("LONGHAUL_TEST_DISK");
    if (!disk || strncmp(path, disk, strlen(disk)) != 0)
        return 0;
    char orders[4096], how = 0;
    snprintf(orders, sizeof orders, "%s.orders", disk);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, orders, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    if (syscall(SYS_read, fd, &how, 1) != 1)
        how = 0;
    syscall(SYS_close, fd);
    return how;
}

static char of_file(int fd)
{
    int before = errno;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length <= 0)
        return 0;
    path[length] = 0;
    return of_path(path);
}

/* Whether a write has to fail; on a full disk only what makes a file longer does. */
static int refuses(int fd, off_t end)
{
    struct stat found;
    switch (of_file(fd)) {
    case 'f':
        if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && end > found.st_size) {
            errno = ENOSPC;
            return 1;
        }
        return 0;
    case 'e':
        errno = EIO;
        return 1;
    case 'r':
        errno = EROFS;
        return 1;
    default:
        return 0;
    }
}

static off_t here(int fd)
{
    int before = errno;
    off_t at = lseek(fd, 0, SEEK_CUR);
    errno = before;
    return at < 0 ? 0 : at;
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    return refuses(fd, here(fd) + (off_t)count) ? -1 : syscall(SYS_write, fd, bytes, count);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    off_t end = here(fd);
    for (int part = 0; part < count; part++)
        end += (off_t)parts[part].iov_len;
    return refuses(fd, end) ? -1 : syscall(SYS_writev, fd, parts, count);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at)
{
    return refuses(fd, at + (off_t)count) ? -1 : syscall(SYS_pwrite64, fd, bytes, count, at);
}

ssize_t copy_file_range(int from, off64_t *at, int fd, off64_t *to, size_t count, unsigned flags)
{
    off_t begin = to ? *to : here(fd);
    return refuses(fd, begin + 1) ? -1 : syscall(SYS_copy_file_range, from, at, fd, to, count, flags);
}

ssize_t pread64(int fd, void *bytes, size_t count, off_t at)
{
    if (of_file(fd) == 'u') {
        errno = EIO;
        return -1;
    }
    return syscall(SYS_pread64, fd, bytes, count, at);
}

int ftruncate64(int fd, off_t length)
{
    return refuses(fd, length) ? -1 : (int)syscall(SYS_ftruncate, fd, length);
}

static int sync_by(long number, int fd)
{
    struct timespec second = {1, 0};
    switch (of_file(fd)) {
    case 'e':
        errno = EIO;
        return -1;
    case 's':
        nanosleep(&second, NULL);
    }
    return (int)syscall(number, fd);
}

int fsync(int fd)
{
    return sync_by(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return sync_by(SYS_fdatasync, fd);
}

static int refuses_to_open(const char *path, int flags)
{
    if ((flags & (O_WRONLY | O_RDWR)) && of_path(path) == 'r') {
        errno = EROFS;
        return 1;
    }
    return 0;
}

#define OPEN(name)                                                                                                        \
    int name(const char *path, int flags, ...)                                                                            \
    {                                                                                                                     \
        va_list more;                                                                                                     \
        va_start(more, flags);                                                                                            \
        int mode = flags & O_CREAT ? va_arg(more, int) : 0;                                                               \
        va_end(more);                                                                                                     \
        return refuses_to_open(path, flags) ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);                 \
    }

OPEN(open)
OPEN(open64)

int mkdir(const char *path, mode_t mode)
{
    if (access(path, F_OK) != 0 && of_path(path) == 'r') {
        errno = EROFS;
        return -1;
    }
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}
