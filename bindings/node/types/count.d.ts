/**
 * What `countFiles` has found: the object of `windrow count --json`, and the notes of the command.
 */
export type Counts = {
    tokenizer: string;
    files: {
        path: string;
        bytes: number;
        tokens: number;
    }[];
    total: {
        files: number;
        bytes: number;
        tokens: number;
    };
    /**
     * Binary files of folders, which are skipped.
     */
    binary: string[];
    /**
     * Why files have no count.
     */
    errors: string[];
    notes: string[];
};
export type CountFilesOptions = {
    /**
     * A tokenizer, a tiktoken name, or the path to a file. Default:
     * `o200k_base`.
     */
    tokenizer?: string | URL | import("./tokenizer.js").Tokenizer | null | undefined;
    /**
     * What to do about a file that has no count: `fail` throws, once the others are counted, an error whose
     * `counts` are theirs. Default: `fail`.
     */
    onError?: "fail" | "skip" | null | undefined;
    /**
     * Counts the bytes of each file as they lie, as one text.
     */
    raw?: boolean | null | undefined;
    /**
     * Lists only this number of files, those with the most tokens.
     */
    top?: number | null | undefined;
    /**
     * Ends the run.
     */
    signal?: AbortSignal | null | undefined;
};
/**
 * The options of the command `windrow count`, and those of a call.
 */
export type CountOptions = Pick<import("./options.js").RunOptions, "allText" | "ext" | "field" | "hidden" | "inputFormat" | "join" | "lines" | "memory" | "noIgnore" | "specialInText" | "threads"> & CountFilesOptions;
/**
 * Counts the tokens of files and folders, as `windrow count` does: what `encodeFiles` would write.
 * @param {string | URL | Iterable<string | URL>} inputs Files, folders or patterns.
 * @param {CountOptions | null} [options]
 * @returns {Promise<Counts>}
 */
export function countFiles(inputs: string | URL | Iterable<string | URL>, options?: CountOptions | null): Promise<Counts>;
