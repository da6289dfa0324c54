// Runs the cases of KernelCases.swift for the kernel sets that this CPU has. For Linux, or qemu in its place.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

int run_kernel_cases(int levels);

// Memory of `count` bytes that ends where a page begins that cannot be read.
void *guarded_memory(long count) {
  long page = sysconf(_SC_PAGESIZE), pages = (count + page - 1) / page;
  char *base = mmap(0, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED || mprotect(base + pages * page, page, PROT_NONE) != 0) _exit(3);
  return base + pages * page - count;
}

void report(const char *level, const char *what, long count, const long *numbers) {
  if (what) {
    printf("%s fails: %s", level, what);
    for (long i = 0; i < count; i++) printf(" %ld", numbers[i]);
    printf("\n");
  } else {
    printf("%s %ld, ", level, numbers[0]);
  }
}

int main(void) {
  unsigned long has = getauxval(AT_HWCAP), more = getauxval(AT_HWCAP2);
  int levels = has >> 20 & 1 ? more >> 13 & 1 ? 3 : 2 : 1;
  int failures = run_kernel_cases(levels);
  printf("comparisons, %d failures\n", failures);
  return failures != 0;
}
