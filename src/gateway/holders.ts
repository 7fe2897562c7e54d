/** Which worker answers which rollout, as all workers of a store know it. */
export interface Holders {
  /**
   * Says that this one does. Throws a `StoreFault` if `stillOurs` does: who has lost the journal never stands after its
   * successor.
   */
  take: (rollout_id: string, holder: NewHolder) => Promise<void>;
  /** The newest; null: none is known. */
  find: (rollout_id: string) => Promise<HolderFact | null>;
  /** The rollout is over: its programs ask no more. */
  leave: (rollout_id: string, holder: HolderFact) => Promise<void>;
  /** Its journal has an end. */
  isOver: (rollout_id: string) => Promise<boolean>;
}

export interface HolderFact {
  /** Of its gateway, without `/v1`. */
  url: string;
  /** Of the journal. */
  writer: string;
}

export interface NewHolder extends HolderFact {
  /** Throws if the journal is another's. */
  stillOurs: () => Promise<void>;
}
