import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';

/**
 * The same store for a process that is killed before its change number `change`, from 0: this change and all later ones
 * fail. Deletions count one by one.
 */
export function dyingStore(
  store: TrajectoryStore,
  change: number,
): { store: TrajectoryStore; hasDied: () => boolean } {
  let made = 0;
  const live = (): void => {
    if (made >= change) throw new Error('killed');
    made += 1;
  };
  let hasDied = false;
  const changing =
    <Input extends unknown[], Output>(operation: (...input: Input) => Promise<Output>) =>
    async (...input: Input): Promise<Output> => {
      hasDied ||= made >= change;
      live();
      return await operation(...input);
    };
  const { facts } = store;
  return {
    hasDied: () => hasDied,
    store: {
      ...store,
      facts: {
        ...facts,
        put: changing(facts.put),
        forget: async (series, numbers) => {
          for (const n of numbers) await changing(facts.forget)(series, [n]);
        },
      },
      forgetJournals: async ({ rows, ...journals }) => {
        for (const row of rows) await changing(store.forgetJournals)({ ...journals, rows: [row] });
      },
      stepOutputs: (place) => {
        const outputs = store.stepOutputs(place);
        return {
          ...outputs,
          openPart: changing(outputs.openPart),
          join: changing(outputs.join),
          putGroupTable: changing(outputs.putGroupTable),
          putMetrics: changing(outputs.putMetrics),
          forget: changing(outputs.forget),
        };
      },
    },
  };
}
