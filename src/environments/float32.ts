/** The mean of float32 values, read one by one: summed in double, rounded once, within torch's own rounding of a mean. */
export function createFloat32Mean() {
  let sum = 0;
  let count = 0;
  return {
    add: (value: number): void => {
      sum += Math.fround(value);
      count += 1;
    },
    count: (): number => count,
    mean: (): number => Math.fround(sum / count),
  };
}
