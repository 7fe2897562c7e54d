/** Bytes between two marks that nobody reads. The marks stay. */
export interface Passage {
  begin: string;
  end: string;
}

/** The text without these passages, piece by piece. A mark that begins at the end of a piece comes with the next. */
export function withoutPassages(passages: readonly Passage[]): (piece: Buffer) => Buffer {
  const marks = passages.map(({ begin, end }) => ({
    begin: Buffer.from(begin),
    end: Buffer.from(end),
  }));
  /** The end of the passage in progress. */
  let end = null as Buffer | null;
  let tail: Buffer = Buffer.alloc(0);
  return (piece) => {
    let rest = tail.length === 0 ? piece : Buffer.concat([tail, piece]);
    const kept: Buffer[] = [];
    for (;;) {
      if (end !== null) {
        const at = rest.indexOf(end);
        if (at === -1) {
          tail = Buffer.from(rest.subarray(rest.length - begunIn(rest, end)));
          break;
        }
        rest = rest.subarray(at);
        end = null;
      }
      const next = firstOf(rest, marks);
      if (next === null) {
        const begun = Math.max(0, ...marks.map(({ begin }) => begunIn(rest, begin)));
        kept.push(rest.subarray(0, rest.length - begun));
        tail = rest.subarray(rest.length - begun);
        break;
      }
      kept.push(rest.subarray(0, next.behind));
      rest = rest.subarray(next.behind);
      end = next.end;
    }
    const [only] = kept;
    return kept.length === 1 && only !== undefined ? only : Buffer.concat(kept);
  };
}

/** The first mark that begins a passage: where its bytes end. */
function firstOf(
  text: Buffer,
  marks: readonly { begin: Buffer; end: Buffer }[],
): { behind: number; end: Buffer } | null {
  let first = null as { behind: number; end: Buffer } | null;
  let until = Infinity;
  for (const { begin, end } of marks) {
    const at = text.indexOf(begin);
    if (at === -1 || at >= until) continue;
    until = at;
    first = { behind: at + begin.length, end };
  }
  return first;
}

/** How many of the last bytes are the beginning of a mark. Each piece of a stream of tokens asks: it makes no copies. */
function begunIn(text: Buffer, mark: Buffer): number {
  const [first = 0] = mark;
  let at = text.indexOf(first, Math.max(0, text.length - mark.length + 1));
  while (at !== -1 && text.compare(mark, 0, text.length - at, at) !== 0)
    at = text.indexOf(first, at + 1);
  return at === -1 ? 0 : text.length - at;
}
