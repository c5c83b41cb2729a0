#include "base/secret.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int secret_read(const char *path, char *ret_line, size_t size, struct err_info *ret_error)
{
    FILE *in = fopen(path, "re");
    bool whole =
        in && fgets(ret_line, (int)size, in) && (strchr(ret_line, '\n') || getc(in) == EOF);
    int errnum = !in || ferror(in) ? errno : 0;
    if (in)
        fclose(in);
    if (errnum)
        return err_set_errno(ret_error, errnum, "cannot read %s", path);
    ret_line[whole ? strcspn(ret_line, "\r\n") : 0] = '\0';
    return 0;
}

bool secret_is_exposed(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && st.st_mode & S_IROTH;
}
