/** A document that a search found. */
export interface RetrievedDocument {
  /** Its position in the corpus, from 0. */
  id: number;
  text: string;
  score: number;
}

/** A searchable corpus, held in memory: what environments are given as a tool (`context.retriever`). */
export interface Retriever {
  readonly document_count: number;
  /**
   * The best documents, best first; equal scores, all-zero ones too, in the order of the corpus. `num_results` is
   * the retriever's own unless given; where the corpus has fewer documents, all of them.
   */
  search(query: string, options?: { num_results?: number }): RetrievedDocument[];
}
