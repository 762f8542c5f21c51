// Shortest ways on the empty floor in cells: those of the simulator's own route table, unless cells are slow or turns count.

class Routes {
  constructor(replay) {
    this.open = replay.arrays.open_moves;
    const width = replay.header.width;
    this.leads = [-width, 1, width, -1]; // up, right, down, left
    this.cache = new Map();
  }

  /** Moves from every cell to the goal; -1 where there is no way. */
  distances(goal) {
    const known = this.cache.get(goal);
    if (known) return known;
    const distance = new Int32Array(this.open.length).fill(-1);
    const queue = new Int32Array(this.open.length);
    distance[goal] = 0;
    queue[0] = goal;
    for (let head = 0, tail = 1; head < tail; head++) {
      const cell = queue[head];
      for (let move = 0; move < 4; move++) {
        const before = cell - this.leads[move];
        if (before < 0 || before >= this.open.length || distance[before] >= 0) continue;
        if (!(this.open[before] >> move & 1)) continue;
        distance[before] = distance[cell] + 1;
        queue[tail++] = before;
      }
    }
    if (this.cache.size >= 24) this.cache.delete(this.cache.keys().next().value);
    this.cache.set(goal, distance);
    return distance;
  }

  /** Cells from one to the other, both included; empty if there is no way. */
  path(from, goal) {
    const distance = this.distances(goal);
    if (distance[from] < 0) return [];
    const cells = [from];
    for (let cell = from; cell !== goal;) {
      const move = this.leads.findIndex((lead, m) => (this.open[cell] >> m & 1) && distance[cell + lead] === distance[cell] - 1);
      cell += this.leads[move];
      cells.push(cell);
    }
    return cells;
  }
}
