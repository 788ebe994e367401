/* test_dir: folders for a test, below $TMPDIR or /tmp. */
#ifndef OXI_SUPPORT_TEST_DIR_H
#define OXI_SUPPORT_TEST_DIR_H

/* A new, empty one; fails the test when there can be none. */
char *test_dir_make(void);
/* With all that is in it; the string is freed. NULL is welcome. */
void test_dir_remove(char *path);

#endif
