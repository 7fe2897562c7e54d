const SPREADS = ['std_dev_across_runs', 'std_err_across_runs', 'avg_sample_std_dev'];

/** Of the metrics named `<pattern>/<score>`, where `{k}` stands for a number: those of the largest k, without spreads. */
export function highestK<Value>(
  metrics: Readonly<Record<string, Value>>,
  {
    pattern,
    only,
    exclude = [],
  }: { pattern: string; only?: readonly string[]; exclude?: readonly string[] },
): Record<string, Value> {
  const [before = '', after = ''] = pattern.split('{k}').map(escape);
  const named = new RegExp(`^${before}(\\d+)${after}/(.+)$`);
  const found = Object.entries(metrics).flatMap(([name, value]) => {
    const [, k, score] = named.exec(name) ?? [];
    if (score === undefined || SPREADS.some((spread) => score.endsWith(spread))) return [];
    const isWanted = (only?.includes(score) ?? true) && !exclude.includes(score);
    return isWanted ? [{ k: Number(k), name, value }] : [];
  });
  const most = found.reduce((max, { k }) => Math.max(max, k), 0);
  return Object.fromEntries(
    found.filter(({ k }) => k === most).map(({ name, value }) => [name, value]),
  );
}

const escape = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
