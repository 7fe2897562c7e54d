/** The template's ids behind a generation begin with the end of its turn, which the generation may have. */
export function idsAfterGeneration(
  generated: readonly number[],
  rendered: readonly number[],
): number[] {
  const isShared = (count: number): boolean => {
    const from = generated.length - count;
    for (let i = 0; i < count; i++) if (generated[from + i] !== rendered[i]) return false;
    return true;
  };
  let shared = Math.min(generated.length, rendered.length);
  while (!isShared(shared)) shared -= 1;
  return rendered.slice(shared);
}
