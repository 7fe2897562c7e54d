import { exportRows } from './export.js';
import { storing, storingEach } from './storing.js';
import type { Outputs, PartWriter } from './trajectory-store.js';

/** Results as their place writes them, and errors that name them. `name`: of the batch or step. */
export function namedOutputs(name: string, raw: Omit<Outputs, 'exportRollouts'>): Outputs {
  const part = ({ first, last }: { first: number; last: number }): string =>
    `rows ${first} to ${last} of ${name}`;
  const readRollouts = (): AsyncGenerator<string> =>
    storingEach(`reading rollouts.jsonl of ${name}`, () => raw.readRollouts());
  return {
    files: raw.files,
    isClosed: (rows) => storing(part(rows), () => raw.isClosed(rows)),
    openPart: (rows, resume) =>
      storing(`closing ${part(rows)}`, async () =>
        namedWriter(part(rows), await raw.openPart(rows, resume)),
      ),
    join: (parts) => storing(`joining the parts of ${name}`, () => raw.join(parts)),
    readRollouts,
    exportRollouts: (to) => exportRows(readRollouts(), to),
    putGroups: ({ from, to }, lines) =>
      storing(`groups ${from} to ${to} of ${name}`, () => raw.putGroups({ from, to }, lines)),
    putGroupTable: (lines) =>
      storing(`writing groups.jsonl of ${name}`, () => raw.putGroupTable(lines)),
    putMetrics: (result) =>
      storing(`writing metrics.json of ${name}`, () => raw.putMetrics(result)),
    readMetrics: () => storing(`reading metrics.json of ${name}`, () => raw.readMetrics()),
    forget: () => storing(`forgetting ${name}`, () => raw.forget()),
    reopen: () => raw.reopen(),
  };
}

const namedWriter = (rows: string, writer: PartWriter): PartWriter => ({
  get position() {
    return writer.position;
  },
  write: (rollout) => storing(`writing ${rows}`, () => writer.write(rollout)),
  close: () => storing(`closing ${rows}`, () => writer.close()),
  abandon: () => writer.abandon(),
});
