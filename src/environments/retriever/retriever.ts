/** A document that a search found. */
export interface RetrievedDocument {
  /** Its position in the corpus, from 0. */
  id: number;
  text: string;
  score: number;
}

/** A searchable corpus in memory, which environments get as a tool (`context.retriever`). */
export interface Retriever {
  readonly document_count: number;
  /**
   * The best documents, best first; equal scores, including all-zero ones, in the order of the corpus. The default of
   * `num_results` is the retriever's; a smaller corpus returns all its documents.
   */
  search(query: string, options?: { num_results?: number }): RetrievedDocument[];
}
