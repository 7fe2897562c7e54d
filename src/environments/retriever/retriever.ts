export interface RetrievedDocument {
  /** Its position in the corpus, from 0. */
  id: number;
  text: string;
  score: number;
}

/** A searchable corpus in memory, which environments get as a tool (`context.retriever`). */
export interface Retriever {
  readonly document_count: number;
  /** Best first; equal scores in the order of the corpus. `num_results`: by default the retriever's. */
  search(query: string, options?: { num_results?: number }): RetrievedDocument[];
}
