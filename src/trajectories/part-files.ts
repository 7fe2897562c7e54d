import { packing } from './arrow/packing.js';
import type { PartPosition, WrittenRollout } from './trajectory-store.js';

/** In the order in which they get their final names. A part that has all of them is closed. */
export type Kind = keyof PartPosition['offsets'];

const KINDS: readonly Kind[] = ['rollouts', 'failures', 'summaries'];

/** The kinds of lines that a part has, with these formats. */
export const kindsOf = (formats: readonly string[]): readonly Kind[] =>
  formats.includes('arrow') ? [...KINDS, 'sequences'] : KINDS;

export const startOf = (attempt: string, kinds: readonly Kind[]): PartPosition => ({
  attempt,
  written: 0,
  offsets: Object.fromEntries(kinds.map((kind) => [kind, 0])) as PartPosition['offsets'],
});

/**
 * Rollouts go out as they come, sequences in whole record batches. The position is the last one at which all kinds had
 * the same rollouts.
 */
export function writing(
  from: PartPosition,
  {
    kinds,
    put: putOut,
  }: {
    kinds: readonly Kind[];
    put: (kind: Kind, piece: { bytes: Buffer; rows: number }) => Promise<void>;
  },
) {
  let reached = from;
  let position = from;
  const put = async (kind: Kind, piece: { bytes: Buffer; rows: number }): Promise<void> => {
    await putOut(kind, piece);
    const before = reached.offsets[kind] ?? 0;
    reached = { ...reached, offsets: { ...reached.offsets, [kind]: before + piece.bytes.length } };
  };
  const arrow = kinds.includes('sequences')
    ? packing((bytes, rows) => put('sequences', { bytes, rows }))
    : null;
  const report = (): void => {
    if (arrow?.isWhole !== false) position = reached;
  };
  return {
    get position() {
      return position;
    },
    /** How far each kind was put; they may differ. */
    get reached() {
      return reached;
    },
    write: async ({ row, summary, valid, sequences }: WrittenRollout): Promise<void> => {
      const rows = valid && arrow !== null ? sequences() : null;
      if (rows !== null) await arrow?.makeRoom(rows);
      report();
      await put(valid ? 'rollouts' : 'failures', { bytes: Buffer.from(`${row}\n`), rows: 1 });
      await put('summaries', { bytes: Buffer.from(`${summary}\n`), rows: 1 });
      if (rows !== null) await arrow?.add(rows);
      reached = { ...reached, written: reached.written + 1 };
      report();
    },
    flush: async (): Promise<void> => {
      await arrow?.flush();
      report();
    },
  };
}
