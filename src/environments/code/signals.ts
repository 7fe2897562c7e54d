/** What is gone needs no signal. */
export function signalTo(target: number, name: NodeJS.Signals): void {
  try {
    process.kill(target, name);
  } catch {
    return;
  }
}

export function signalGroup(group: number, name: NodeJS.Signals): void {
  // -0 would be the worker's own group, -1 everybody.
  if (group > 1) signalTo(-group, name);
}
