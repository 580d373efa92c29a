// Does not compile when warnings are errors.

int main(void) {
    int unused;
    return 0;
}
