import { checkedFact } from '../places.js';
import { storing } from '../storing.js';
import type { Facts, Series } from '../trajectory-store.js';
import type { Database } from './database.js';

export function createTableFacts(database: Database, schema: string): Facts {
  const table = `"${schema}".fact`;
  const nameOf = (series: Series, n: number): string => checkedFact({ series, n }).series.join('/');
  const find = async (series: Series, n: number): Promise<string | null> => {
    const [row] = await database.ask<{ fact: string }>({
      name: 'fact_find',
      text: `select fact from ${table} where series = $1 and n = $2`,
      values: [nameOf(series, n), n],
    });
    return row?.fact ?? null;
  };
  return {
    put: ({ series, n, text }) =>
      storing(`fact ${series.join('/')} ${n}`, async () => {
        const put = await database.ask({
          name: 'fact_put',
          text: `insert into ${table} (series, n, fact) values ($1, $2, $3) on conflict do nothing returning n`,
          values: [nameOf(series, n), n, text],
        });
        return put.length > 0 || (await find(series, n)) === text;
      }),
    find: (series, n) => storing(`fact ${series.join('/')} ${n}`, () => find(series, n)),
    last: (series, known) =>
      storing(`facts ${series.join('/')}`, async () => {
        const [row] = await database.ask<{ n: number; fact: string }>({
          name: 'fact_last',
          text: `select n, fact from ${table} where series = $1 and n > $2 order by n desc limit 1`,
          values: [nameOf(series, 0), known],
        });
        return row === undefined ? null : { series, n: row.n, text: row.fact };
      }),
    news: (of) =>
      storing('facts', async () => {
        if (of.length === 0) return [];
        const names = of.map(({ series }) => nameOf(series, 0));
        const rows = await database.ask<{ series: string; n: number; fact: string }>({
          name: 'fact_news',
          text:
            `select f.series, f.n, f.fact from unnest($1::text[], $2::int[]) as k (series, known) ` +
            `join ${table} f on f.series = k.series and f.n > k.known order by f.series, f.n`,
          values: [names, of.map(({ known }) => known)],
        });
        const known = new Map(names.map((name, i) => [name, of[i]?.series]));
        return rows.flatMap(({ series: name, n, fact: text }) => {
          const series = known.get(name);
          return series === undefined ? [] : [{ series, n, text }];
        });
      }),
    forget: (series, numbers) =>
      storing(`facts ${series.join('/')}`, async () => {
        if (numbers.length === 0) return;
        await database.ask({
          name: 'fact_delete',
          text: `delete from ${table} where series = $1 and n = any($2::int[])`,
          values: [nameOf(series, 0), numbers],
        });
      }),
  };
}
