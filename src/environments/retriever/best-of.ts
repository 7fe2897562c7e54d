export interface Ranked {
  /** The document's position, from 0. */
  id: number;
  score: number;
}

interface Selection {
  scores: Float64Array;
  count: number;
}

/** Keeps the `count` best in a heap whose root is the worst of them, so that most documents cost one comparison. */
export function bestOf(ids: readonly number[], { scores, count }: Selection): Ranked[] {
  const heap: Ranked[] = [];
  if (count <= 0) return heap;
  for (const id of ids) {
    const score = scores[id] ?? 0;
    const [worst] = heap;
    if (worst === undefined || heap.length < count) pushUp(heap, { id, score });
    else if (score >= worst.score && isWorse(worst, { id, score })) sinkDown(heap, { id, score });
  }
  return heap.sort((a, b) => b.score - a.score || a.id - b.id);
}

const isWorse = (a: Ranked, b: Ranked): boolean =>
  a.score < b.score || (a.score === b.score && a.id > b.id);

function pushUp(heap: Ranked[], added: Ranked): void {
  let place = heap.length;
  while (place > 0) {
    const above = (place - 1) >> 1;
    const parent = heap[above];
    if (parent === undefined || !isWorse(added, parent)) break;
    heap[place] = parent;
    place = above;
  }
  heap[place] = added;
}

/** Puts it in the root's place. */
function sinkDown(heap: Ranked[], added: Ranked): void {
  let place = 0;
  for (;;) {
    const left = heap[2 * place + 1];
    const right = heap[2 * place + 2];
    const isRight = left !== undefined && right !== undefined && isWorse(right, left);
    const child = isRight ? right : left;
    if (child === undefined || !isWorse(child, added)) break;
    heap[place] = child;
    place = 2 * place + (isRight ? 2 : 1);
  }
  heap[place] = added;
}
