"""Between the lane memories and the memory ports: readers, writers and the engines of LOAD, STORE and TRANSPOSE."""
