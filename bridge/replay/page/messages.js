// What the followed robot says and hears.

class Messages {
  constructor(replay) {
    this.replay = replay;
    this.format = replay.header.messages;
  }

  /** What a robot sent in the step before frame t, in words; null if it was silent. */
  said(t, robot) {
    const { discrete, kept, levels, size } = this.format;
    const start = (t * this.replay.count + robot) * kept;
    const values = Array.from(this.replay.arrays.said.subarray(start, start + kept));
    if (!values[0]) return null;
    if (discrete) return `symbol ${values[0] - 1} of ${size}`;
    const words = values.map((value) => ((value - 1) / levels - 1).toFixed(2));
    return words.join(', ') + (kept < size ? `, ... (${kept} of ${size} values kept)` : '');
  }

  /** The nearest robots in range: { robot, age in steps, text }; age and text are null where nothing of it has arrived. */
  heard(t, robot) {
    const { senders } = this.format;
    const { heard_from: from, heard_age: ages } = this.replay.arrays;
    const found = [];
    for (let place = 0, at = (t * this.replay.count + robot) * senders; place < senders; place++, at++) {
      if (!from[at]) continue;
      const other = from[at] - 1;
      const age = ages[at] - 1;
      found.push({ robot: other, age: age < 0 ? null : age, text: age < 0 ? null : this.said(t - age, other) });
    }
    return found;
  }
}
