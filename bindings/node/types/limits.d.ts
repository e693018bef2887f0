export let bytes: number;
export let items: number;
export let waiting: number;
export let lent: number;
export let decodedBytes: number;
export let decodedItems: number;
export let small: number;
