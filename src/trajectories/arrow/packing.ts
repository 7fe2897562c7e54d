import type { ArrowRow } from '../../model/results/arrow/columns.js';
import { recordBatch } from './batches.js';

/** A record batch has consecutive rows of one group up to this size, and at least one. */
export const MOST_BATCH_BYTES = 8 * 2 ** 20;

/** Packs rollouts into record batches. A batch ends in the middle of a rollout only if the rollout alone is larger. */
export function packing(write: (batch: Buffer, rows: number) => Promise<void>) {
  let rows: ArrowRow[] = [];
  let bytes = 0;
  const flush = async (): Promise<void> => {
    if (rows.length === 0) return;
    const [batch, count] = [recordBatch(rows), rows.length];
    [rows, bytes] = [[], 0];
    await write(batch, count);
  };
  /** Writes what the next rollout must not share a batch with. */
  const makeRoom = async (rollout: readonly ArrowRow[]): Promise<void> => {
    const isOther = rows[0] !== undefined && rows[0].group !== rollout[0]?.group;
    if (isOther || bytes + sizeOf(rollout) > MOST_BATCH_BYTES) await flush();
  };
  return {
    get isWhole(): boolean {
      return rows.length === 0;
    },
    makeRoom,
    add: async (rollout: readonly ArrowRow[]): Promise<void> => {
      await makeRoom(rollout);
      const isLarge = sizeOf(rollout) > MOST_BATCH_BYTES;
      for (const row of rollout) {
        if (isLarge) await makeRoom([row]);
        rows.push(row);
        bytes += sizeOf([row]);
      }
      if (isLarge) await flush();
    },
    flush,
  };
}

/** The bytes of the columns that grow; the others take some hundred. `rest` may be a little more in UTF-8. */
const sizeOf = (rows: readonly ArrowRow[]): number =>
  rows.reduce((sum, { input_ids, rest }) => sum + 13 * input_ids.length + rest.length + 200, 0);
