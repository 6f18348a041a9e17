// Rows of at most four arcs, found by the vertex number alone: four targets, and
// behind them their weights where arcs have any. So a short row is one load and not
// three that wait for each other. Of longer rows a mark is there; those are found by
// the row index.
#pragma once

#include "span.cuh"

namespace millstream {

// Arcs of a packed row.
constexpr u32 row_arcs = 4;
// In place of a target: no arc, or a row that is longer.
constexpr u32 no_vertex = ~0u;
constexpr u32 long_row = ~0u - 1;

}  // namespace millstream
