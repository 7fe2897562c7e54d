/** A float as `orjson` writes it, but for exponents (`1e21`, not `1e+21`): whole ones with `.0`, what is not finite as null. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return 'null';
  const text = Object.is(value, -0) ? '-0' : String(value);
  return Number.isInteger(value) && !text.includes('e') ? `${text}.0` : text;
}
