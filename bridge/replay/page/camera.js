// Which part of the floor is seen, and how large.

class Camera {
  constructor(replay) {
    this.replay = replay;
    this.width = this.height = 1; // of the canvas in CSS pixels
    this.scale = 1; // CSS pixels per metre
    this.x = replay.widthM / 2; // m, in the middle of the canvas
    this.y = replay.heightM / 2;
    this.fitted = true;
  }

  get fitScale() {
    const margin = 16;
    return Math.max(Math.min((this.width - margin) / this.replay.widthM, (this.height - margin) / this.replay.heightM), 0.01);
  }

  resize(width, height) {
    this.width = Math.max(width, 1);
    this.height = Math.max(height, 1);
    if (this.fitted) this.fit();
  }

  fit() {
    this.scale = this.fitScale;
    this.x = this.replay.widthM / 2;
    this.y = this.replay.heightM / 2;
    this.fitted = true;
  }

  /** Zoom, with the point of the floor under (sx, sy) staying where it is. */
  zoom(factor, sx = this.width / 2, sy = this.height / 2) {
    const [x, y] = this.toFloor(sx, sy);
    this.scale = Math.min(Math.max(this.scale * factor, this.fitScale / 2), 400);
    this.x = x - (sx - this.width / 2) / this.scale;
    this.y = y + (sy - this.height / 2) / this.scale;
    this.fitted = false;
  }

  pan(dx, dy) {
    this.moveTo(this.x - dx / this.scale, this.y + dy / this.scale);
  }

  moveTo(x, y) {
    this.x = Math.min(Math.max(x, 0), this.replay.widthM);
    this.y = Math.min(Math.max(y, 0), this.replay.heightM);
    this.fitted = false;
  }

  screenX(x) { return (x - this.x) * this.scale + this.width / 2; }
  screenY(y) { return (this.y - y) * this.scale + this.height / 2; }
  toFloor(sx, sy) {
    return [this.x + (sx - this.width / 2) / this.scale, this.y - (sy - this.height / 2) / this.scale];
  }
}
