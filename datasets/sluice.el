# A small directed graph of our own with weights in the third column: a cycle with
# a tail, a self-loop, a double arc, a part that reaches the rest but cannot be
# reached from 0 (8, 9), and one that has nothing to do with it (10, 11).
0 1 4
0 2 1
1 3 1
2 1 2
2 3 5
2 3 7
3 4 3
4 0 2
4 5 1
5 5 9
5 6 2
6 7 1
8 0 1
8 9 1
9 6 3
10 11 2
