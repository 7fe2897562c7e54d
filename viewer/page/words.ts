/** Numbers as people read them. */
const NONE = '–';

const grouped = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat('en-GB', { maximumSignificantDigits: 4 });

export const whole = (value: number | null): string =>
  value === null ? NONE : grouped.format(value);
export const decimal = (value: number | null): string =>
  value === null ? NONE : precise.format(value).replace('-', '−');
export const percent = (share: number | null): string =>
  share === null ? NONE : `${precise.format(Math.round(share * 1000) / 10)} %`;

export function seconds(value: number | null): string {
  if (value === null) return NONE;
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 100) return `${precise.format(Math.round(value * 10) / 10)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.round(value % 60)} s`;
  return `${Math.floor(value / 3600)} h ${Math.round((value % 3600) / 60)} min`;
}

export const time = (at: number | null): string =>
  at === null
    ? NONE
    : new Date(at * 1000)
        .toISOString()
        .replace('T', ' ')
        .replace(/\.\d+Z$/, ' UTC');

export const plural = (count: number, one: string): string =>
  `${whole(count)} ${one}${count === 1 ? '' : 's'}`;
