module countersign

go 1.26.0
