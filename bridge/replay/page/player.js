// The clock: what time is shown, how fast it runs, and when something has to be drawn again.

const SPEEDS = [0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200];

class Player {
  /** `draw` is called with the time in steps, at most once per frame of the screen. */
  constructor(replay, draw) {
    this.replay = replay;
    this.draw = draw;
    this.time = 0;
    this.playing = false;
    // About four steps a second, but not slower than real time.
    const wanted = Math.max(4 * replay.header.step_s, 1);
    this.speed = SPEEDS.reduce((best, one) => (Math.abs(Math.log(one / wanted)) < Math.abs(Math.log(best / wanted)) ? one : best));
    this.before = null;
    this.scheduled = false;
    this.drawMs = []; // how long the last frames took to draw
  }

  get step() { return Math.floor(this.time); }

  seek(time) {
    this.time = Math.min(Math.max(time, 0), this.replay.steps);
    this.refresh();
  }

  play(on) {
    if (on && this.time >= this.replay.steps) this.time = 0;
    this.playing = on;
    this.before = null;
    this.refresh();
  }

  changeSpeed(by) {
    const at = SPEEDS.indexOf(this.speed) + by;
    if (at >= 0 && at < SPEEDS.length) this.speed = SPEEDS[at];
    this.refresh();
  }

  refresh() {
    if (this.scheduled) return;
    this.scheduled = true;
    requestAnimationFrame((now) => this.frame(now));
  }

  frame(now) {
    this.scheduled = false;
    if (this.playing) {
      // A page that was out of sight does not jump ahead.
      const elapsed = this.before === null ? 0 : Math.min(now - this.before, 250) / 1000;
      this.before = now;
      this.time += elapsed * this.speed / this.replay.header.step_s;
      if (this.time >= this.replay.steps) {
        this.time = this.replay.steps;
        this.playing = false;
      }
    }
    const start = performance.now();
    this.draw(this.time);
    this.drawMs.push(performance.now() - start);
    if (this.drawMs.length > 600) this.drawMs.shift();
    if (this.playing) this.refresh();
  }
}
