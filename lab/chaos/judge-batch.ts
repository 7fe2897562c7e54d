import { rowsOf } from '../bed/batch.js';
import type { LabelReport } from '../bed/policy-labels.js';
import type { Played } from './played.js';

/** All that a batch has delivered, from the files of its folder alone. */
export async function judgeBatch(
  folder: string,
  { rows_expected, labels }: { rows_expected: number; labels: LabelReport },
): Promise<Played> {
  const { rollouts: rows, failures } = await rowsOf(folder);
  const ids = [...rows, ...failures].map(({ rollout_id }) => rollout_id);
  return {
    name: 'batch',
    rows_expected,
    rows: new Set(rows.map(({ rollout_id }) => rollout_id)).size,
    rows_duplicated: ids.length - new Set(ids).size,
    failures: failures.length,
    ...{ steps: 0, steps_changed: 0 },
    labels,
    problems: [],
  };
}
